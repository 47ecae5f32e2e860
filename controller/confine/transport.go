package confine

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"curfew.dev/curfew/controller/transport"
)

// ErrOutside is what refused requests fail with.
var ErrOutside = errors.New("refused by --only-namespaces before it was sent")

// Options of a [Transport].
type Options struct {
	// Namespaces are the namespaces that Curfew works in. Requests about a Namespace itself only read
	// it.
	Namespaces []string
	// Own is the namespace that Curfew runs in. It reads and writes its Lease, its settings and
	// Events there, and deletes nothing.
	Own string
}

// Wrap returns a transport that refuses requests beyond the namespaces, and passes on the others.
// Fits rest.Config.Wrap.
func (o Options) Wrap(next http.RoundTripper) http.RoundTripper {
	return &transport.Wrapper{Next: next, Do: o.send}
}

var paths = &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

func (o Options) send(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	info, err := paths.NewRequestInfo(r)
	if err == nil && o.allows(info) {
		return next.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close() // As a RoundTripper has to; the request was not sent.
	}
	return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, ErrOutside)
}

// questions are what Curfew asks about itself. They belong to no namespace and change nothing.
var questions = map[string][]string{
	"authorization.k8s.io":  {"selfsubjectaccessreviews", "selfsubjectrulesreviews"},
	"authentication.k8s.io": {"selfsubjectreviews"},
}

// ownResources are what Curfew writes in its own namespace.
var ownResources = map[string][]string{
	"":                    {"configmaps", "events"},
	"events.k8s.io":       {"events"},
	"coordination.k8s.io": {"leases"},
}

func (o Options) allows(info *request.RequestInfo) bool {
	listed := slices.Contains(o.Namespaces, info.Namespace)
	switch {
	case info.Path != path.Clean(info.Path):
		return false // A proxy might shorten it, so that the API server sees another namespace.
	case !info.IsResourceRequest:
		return info.Verb == "get" || info.Verb == "head"
	case info.Namespace == "":
		return info.Verb == "create" && slices.Contains(questions[info.APIGroup], info.Resource)
	case info.APIGroup == "" && info.Resource == "namespaces":
		return listed && info.Verb == "get" && info.Subresource == ""
	case listed:
		return true
	default:
		own := info.Namespace == o.Own && slices.Contains(ownResources[info.APIGroup], info.Resource)
		return own && info.Verb != "delete" && info.Verb != "deletecollection"
	}
}
