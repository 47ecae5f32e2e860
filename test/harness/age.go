package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// stored are the folders of etcd that do not have the name of their resource.
var stored = map[string]string{"services": "services/specs", "ingresses": "ingress"}

// Age makes an object as old as if it had been created at another time. The API server sets that
// time itself and never changes it, so this writes to etcd. It returns false if the object was
// written meanwhile. The resource of a custom kind is "group/plural".
func (c *Cluster) Age(ctx context.Context, resource, namespace, name string, created time.Time) (bool, error) {
	folder, ok := stored[resource]
	if !ok {
		folder = resource
	}
	key := []byte(path.Join("/registry", folder, namespace, name))
	var read struct {
		Kvs []struct {
			Value    []byte
			Revision string `json:"mod_revision"`
		}
	}
	if err := c.AskEtcd(ctx, "range", map[string]any{"key": key}, &read); err != nil {
		return false, err
	}
	if len(read.Kvs) != 1 {
		return false, fmt.Errorf("etcd has %d objects %s", len(read.Kvs), key)
	}
	value, err := createdAt(read.Kvs[0].Value, created)
	if err != nil {
		return false, err
	}
	var wrote struct{ Succeeded bool }
	err = c.AskEtcd(ctx, "txn", map[string]any{
		"compare": []any{map[string]any{"key": key, "target": "MOD", "mod_revision": read.Kvs[0].Revision}},
		"success": []any{map[string]any{"request_put": map[string]any{"key": key, "value": value}}},
	}, &wrote)
	return wrote.Succeeded, err
}

// createdAt changes the creation of an object as etcd has it.
func createdAt(value []byte, created time.Time) ([]byte, error) {
	if value[0] == '{' { // a custom kind
		object := &unstructured.Unstructured{}
		if err := json.Unmarshal(value, &object.Object); err != nil {
			return nil, fmt.Errorf("parse an object of etcd: %w", err)
		}
		object.SetCreationTimestamp(metav1.NewTime(created))
		return json.Marshal(object.Object)
	}
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decode an object of etcd: %w", err)
	}
	obj, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	obj.SetCreationTimestamp(metav1.NewTime(created))
	object.GetObjectKind().SetGroupVersionKind(*kind)
	var out bytes.Buffer
	err = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &out)
	return out.Bytes(), err
}

// AskEtcd sends a request to the JSON gateway of etcd.
func (c *Cluster) AskEtcd(ctx context.Context, what string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Etcd+"/v3/kv/"+what, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(post)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answered %s", response.Status)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}
