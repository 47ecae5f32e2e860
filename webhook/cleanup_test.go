package webhook

import (
	"context"
	"errors"
	"net/http"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
)

// A review that cannot be answered denies a cleanup policy: an error would let it pass where the
// webhook fails open.
func TestCleanupAuthorUnknown(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Access = &failing{} })
	const head = `{"apiVersion":"curfew.dev/v1alpha1","kind":"CleanupPolicy","metadata":{"namespace":"plain","name":"a"},"spec":{"schedule":"@daily","serviceAccountName":"janitor",` +
		`"matchConstraints":{"resourceRules":[{"apiGroups":[""],"resources":["secrets"]}]}`
	object, suspended := head+`}}`, head+`,"suspend":true}}`
	response := w.ask(t, ask{path: PathValidatePolicy, object: object})
	if response.Allowed || response.Result.Code != http.StatusTooManyRequests || response.Result.Details.RetryAfterSeconds == 0 {
		t.Errorf("%+v", response)
	}
	if response := w.ask(t, ask{path: PathValidatePolicy, old: object, object: suspended}); !response.Allowed {
		t.Errorf("suspending it: %+v", response.Result)
	}
	if response := w.ask(t, ask{path: PathValidatePolicy, old: suspended, object: object}); response.Allowed {
		t.Error("resuming it is allowed to anyone")
	}
}

type failing struct{}

func (f *failing) May(context.Context, authenticationv1.UserInfo, authorizationv1.ResourceAttributes) (bool, error) {
	return false, errors.New("timeout")
}
