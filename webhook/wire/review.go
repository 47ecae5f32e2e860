package wire

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"curfew.dev/curfew/policy/quote"
)

// The only version that the manifests ask for.
const (
	apiVersion = "admission.k8s.io/v1"
	kind       = "AdmissionReview"
)

// Review has the parts of an AdmissionReview that admission needs. Strings and objects are parts of
// the text that they were read from.
type Review struct {
	UID                          string
	Operation                    string
	Kind                         metav1.GroupVersionKind
	Resource                     metav1.GroupVersionResource
	SubResource, Namespace, Name string
	Username                     string
	Object, Old                  Object
	user                         string
}

// Object is an object of a review.
type Object struct {
	// Raw is the object as it was sent; empty if there is none.
	Raw string
	// Fields is the decoded object without its managedFields; nil if there is none, or it is null.
	Fields map[string]any
}

// Parse reads a review. Its errors are for the sender and name the field.
func Parse(text string) (*Review, error) {
	s := scanner{text: text}
	out := &Review{}
	var version, name string
	found := false
	err := s.distinct("", []string{"apiVersion", "kind", "request"}, func(member string) error {
		switch member {
		case "apiVersion":
			return s.stringInto(&version, member)
		case "kind":
			return s.stringInto(&name, member)
		case "request":
			if s.next() == 'n' {
				return s.skip()
			}
			found = true
			return out.request(&s)
		default:
			return s.skip()
		}
	})
	if err == nil {
		err = s.end()
	}
	var syntax *syntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("the body is no JSON that could be an AdmissionReview: %w", err)
	case err != nil:
		return nil, err
	case version != apiVersion || name != kind:
		return nil, fmt.Errorf("the body is of apiVersion %q and kind %q: send an AdmissionReview of %s", quote.Shorten(version),
			quote.Shorten(name), apiVersion)
	case !found || out.UID == "":
		return nil, errors.New("the AdmissionReview has no request.uid: send one of admission.k8s.io/v1 with a request")
	}
	return out, nil
}

var requestMembers = []string{"uid", "operation", "kind", "resource", "subResource", "namespace", "name", "userInfo", "object", "oldObject"}

func (r *Review) request(s *scanner) error {
	return s.distinct("request.", requestMembers, func(member string) error {
		switch member {
		case "uid":
			return s.stringInto(&r.UID, "request.uid")
		case "operation":
			return s.stringInto(&r.Operation, "request.operation")
		case "kind":
			return s.group("request.kind", &r.Kind.Group, &r.Kind.Version, "kind", &r.Kind.Kind)
		case "resource":
			return s.group("request.resource", &r.Resource.Group, &r.Resource.Version, "resource", &r.Resource.Resource)
		case "subResource":
			return s.stringInto(&r.SubResource, "request.subResource")
		case "namespace":
			return s.stringInto(&r.Namespace, "request.namespace")
		case "name":
			return s.stringInto(&r.Name, "request.name")
		case "userInfo":
			return r.userInfo(s)
		case "object":
			return r.Object.read(s, "request.object")
		case "oldObject":
			return r.Old.read(s, "request.oldObject")
		default:
			return s.skip()
		}
	})
}

// read reads an object. It may be null: a DELETE only has an oldObject.
func (o *Object) read(s *scanner, field string) (err error) {
	c := s.next()
	from := s.at
	// An object may be as deep as the API server allows, regardless of the review around it.
	around := s.depth
	s.depth = 0
	defer func() { s.depth = around }()
	switch c {
	case '{':
		o.Fields, err = s.kubernetesObject()
	case 'n':
		o.Fields, err = nil, s.skip()
	default:
		if err = s.skip(); err == nil {
			err = fmt.Errorf("%s is no JSON object", field)
		}
	}
	o.Raw = s.text[from:s.at]
	return err
}

func (r *Review) userInfo(s *scanner) error {
	if s.next() == 'n' {
		return s.skip()
	}
	from := s.at
	err := s.distinct("request.userInfo.", []string{"username"}, func(string) error {
		return s.stringInto(&r.Username, "request.userInfo.username")
	})
	r.user = s.text[from:s.at]
	return err
}

// UserInfo decodes the user with all groups. Few reviews need it.
func (r *Review) UserInfo() (authenticationv1.UserInfo, error) {
	out := authenticationv1.UserInfo{}
	if r.user == "" {
		return out, nil
	}
	if err := utiljson.Unmarshal([]byte(r.user), &out); err != nil {
		return out, fmt.Errorf("request.userInfo: %w", err)
	}
	return out, nil
}

// distinct calls visit for each member of the next object that has one of the names, and skips the
// others without remembering them (S9). A repeated name is an error: parsers disagree about which
// one counts, and no API server sends it.
func (s *scanner) distinct(prefix string, names []string, visit func(name string) error) error {
	seen := uint64(0)
	return s.members(func(name string) error {
		known := slices.Index(names, name)
		if known < 0 {
			return s.skip()
		}
		if seen&(1<<known) != 0 {
			return fmt.Errorf("%s%s is there twice", prefix, name)
		}
		seen |= 1 << known
		return visit(name)
	})
}

// stringInto reads a string; null leaves it empty.
func (s *scanner) stringInto(to *string, field string) (err error) {
	switch s.next() {
	case '"':
		*to, err = s.string()
		return err
	case 'n':
		return s.skip()
	default:
		if err := s.skip(); err != nil {
			return err
		}
		return fmt.Errorf("%s is no string", field)
	}
}

// group reads a group, a version and a third part.
func (s *scanner) group(field string, group, version *string, third string, name *string) error {
	if s.next() == 'n' {
		return s.skip()
	}
	return s.distinct(field+".", []string{"group", "version", third}, func(member string) error {
		switch member {
		case "group":
			return s.stringInto(group, field+".group")
		case "version":
			return s.stringInto(version, field+".version")
		case third:
			return s.stringInto(name, field+"."+third)
		default:
			return s.skip()
		}
	})
}

// object decodes the next object, without the member named without. Of two members with the same
// name the later counts. Its own loop saves a closure for each object.
func (s *scanner) object(without string) (map[string]any, error) {
	if err := s.open('{', "an object"); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for first := true; ; first = false {
		done, err := s.more('}', first)
		if done || err != nil {
			return out, err
		}
		name, err := s.name()
		switch {
		case err != nil:
		case name == without && name != "":
			err = s.skip()
		default:
			out[name], err = s.value()
		}
		if err != nil {
			return nil, err
		}
	}
}

// kubernetesObject decodes a Kubernetes object without its metadata.managedFields.
func (s *scanner) kubernetesObject() (map[string]any, error) {
	out := map[string]any{}
	err := s.members(func(name string) (err error) {
		if name == "metadata" && s.next() == '{' {
			out[name], err = s.object("managedFields")
		} else {
			out[name], err = s.value()
		}
		return err
	})
	return out, err
}

// value decodes the next value.
func (s *scanner) value() (any, error) {
	switch s.next() {
	case '{':
		return s.object("")
	case '[':
		return s.list()
	case '"':
		return s.string()
	case 't', 'f', 'n':
		return s.literal()
	default:
		text, whole, err := s.number()
		if err != nil {
			return nil, err
		}
		if whole {
			if number, err := strconv.ParseInt(text, 10, 64); err == nil {
				return number, nil
			}
		}
		number, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, s.fail(fmt.Sprintf("the number %s is too large", text))
		}
		return number, nil
	}
}

func (s *scanner) list() ([]any, error) {
	if err := s.open('[', "a list"); err != nil {
		return nil, err
	}
	out := []any{}
	for first := true; ; first = false {
		done, err := s.more(']', first)
		if done || err != nil {
			return out, err
		}
		value, err := s.value()
		if err != nil {
			return nil, err
		}
		out = append(out, value)
	}
}
