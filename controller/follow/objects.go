package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Objects reads some objects of any kind, and keeps no more than one at a time (S9).
type Objects struct{ client rest.Interface }

const (
	// maxEach bounds the objects that one list reads, and eachBytes their size.
	maxEach   = 500
	eachBytes = 16 << 20
)

// NewObjects makes a reader with the credentials of a config.
func NewObjects(config *rest.Config) (*Objects, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.NegotiatedSerializer = &schema.GroupVersion{}, scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return &Objects{client}, nil
}

// Each calls f for objects of a resource, in one namespace or, with "", in all. It reports whether
// there are more than it read. After an error, f may have been called for some.
func (o *Objects) Each(ctx context.Context, resource schema.GroupVersionResource, namespace string, f func(object map[string]any)) (more bool, err error) {
	path := []string{"/apis", resource.Group, resource.Version}
	if resource.Group == "" {
		path = []string{"/api", resource.Version}
	}
	request := o.client.Get().AbsPath(path...).NamespaceIfScoped(namespace, namespace != "").Resource(resource.Resource)
	body, err := request.Param("limit", strconv.Itoa(maxEach)).SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		return false, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
	}
	defer func() { _ = body.Close() }()
	more, err = eachOf(io.LimitReader(body, eachBytes), f)
	if err != nil {
		return false, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
	}
	return more, nil
}

// eachOf reads a list in JSON, one item after the other.
func eachOf(from io.Reader, f func(object map[string]any)) (more bool, err error) {
	list := json.NewDecoder(from)
	if _, err := list.Token(); err != nil {
		return false, err
	}
	for list.More() {
		name, err := list.Token()
		if err != nil {
			return more, err
		}
		switch name {
		case "items":
			err = items(list, f)
		case "metadata":
			var metadata struct{ Continue string }
			err = list.Decode(&metadata)
			more = metadata.Continue != ""
		default:
			err = list.Decode(&json.RawMessage{})
		}
		if err != nil {
			return more, err
		}
	}
	return more, nil
}

func items(list *json.Decoder, f func(object map[string]any)) error {
	if begin, err := list.Token(); err != nil || begin != json.Delim('[') {
		return errors.Join(err, errors.New("items is no list"))
	}
	for list.More() {
		var text json.RawMessage
		if err := list.Decode(&text); err != nil {
			return err
		}
		object := map[string]any{}
		if err := utiljson.Unmarshal(text, &object); err != nil {
			return err
		}
		f(object)
	}
	_, err := list.Token()
	return err
}
