package e2e

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// Every feed reads built-in kinds as protobuf: the watches of Jobs, finished Pods and Namespaces,
// and the pages of a namespace that changed its mind. JSON costs the API server and the controller
// several times as much.
func TestFeedsReadProtobuf(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	s.awaitGone(s.finishJob("due", now(), ttl(second))) // a feed that has seen no object judges none again
	s.expectSuccess(s.kubectl("annotate", "namespace", s.name, wellknown.AnnotationDefaultTTL+"=1h"))
	for path, row := range map[string]struct {
		fields string
		watch  bool
	}{
		"/apis/batch/v1/jobs": {watch: true},
		"/api/v1/pods":        {"status.phase!=Pending,status.phase!=Running,status.phase!=Unknown", true},
		"/api/v1/namespaces":  {watch: true},
		"/apis/batch/v1/namespaces/" + s.name + "/jobs": {},
	} {
		s.readsProtobuf(func(read harness.Read) bool {
			return read.Path == path && read.FieldSelector == row.fields && read.LabelSelector == "" && read.Watch == row.watch
		}, path)
	}
}

// labelsInProtobuf holds that the label's watch of a kind was answered in protobuf.
func (s *space) labelsInProtobuf(resource schema.GroupVersionResource) {
	s.Helper()
	path := "/apis/" + resource.Group + "/" + resource.Version + "/" + resource.Resource
	if resource.Group == "" {
		path = "/api/" + resource.Version + "/" + resource.Resource
	}
	s.readsProtobuf(func(read harness.Read) bool {
		return read.Path == path && read.LabelSelector == wellknown.LabelTTL && read.Watch
	}, path+"?labelSelector="+wellknown.LabelTTL)
}

// readsProtobuf waits until the controller has read something, and holds that no answer was in
// anything but protobuf.
func (s *space) readsProtobuf(asked func(harness.Read) bool, what string) {
	s.Helper()
	var answers []string
	err := harness.Poll(s.ctx, s.Name()+": a read of "+what, func(context.Context) (bool, error) {
		for _, read := range suite.proxy.Reads() {
			if read.Status == http.StatusOK && asked(read) {
				answers = append(answers, read.ContentType)
			}
		}
		return len(answers) > 0, nil
	})
	if err != nil {
		s.Fatalf("%s was not read: %v", what, err)
	}
	if slices.ContainsFunc(answers, func(written string) bool { return !strings.HasPrefix(written, runtime.ContentTypeProtobuf) }) {
		s.Errorf("%s was read as %q", what, answers)
	}
}
