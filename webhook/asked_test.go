package webhook

import (
	"errors"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/rules"
)

// TestAccessOutsideOfAdmission holds that whoever is asked over HTTP asks what admission would.
func TestAccessOutsideOfAdmission(t *testing.T) {
	behind := &answers{of: map[string]bool{"system:serviceaccount:curfew-system:curfew-controller": true}}
	webhooks := newWorld(t, func(o *Options) {
		o.Access, o.ControllerUser, o.RequireDelete, o.KyvernoLabel = behind, "system:serviceaccount:curfew-system:curfew-controller", true, true
	}).webhooks
	if asked := webhooks.RuleOptions(); !asked.RequireDelete || !asked.KyvernoLabel {
		t.Error("others would judge by other settings")
	}
	if namespace, err := webhooks.Source().Namespace(t.Context(), "ci"); err != nil || namespace.TTL.All == nil {
		t.Errorf("others would judge by another namespace: %+v, %v", namespace, err)
	}
	if _, err := webhooks.Source().Runtime(t.Context(), nil); !errors.Is(err, platform.ErrUnknown) {
		t.Errorf("nobody reads runtimes, and they are known: %v", err)
	}
	review := func(profile *policy.Profile, spec map[string]any) rules.Access {
		object := map[string]any{"metadata": map[string]any{"name": "a", "namespace": "ci"}, "spec": spec}
		access, err := webhooks.Access(t.Context(), authenticationv1.UserInfo{Username: "ann"}, &rules.Request{
			Operation: rules.Create, Object: object, Facts: policy.FactsOfObject(profile, object),
		})
		if err != nil {
			t.Fatal(err)
		}
		return access
	}
	ttl := map[string]any{"ttlSecondsAfterFinished": int64(60)}
	if have := review(policy.JobProfile, ttl); have != (rules.Access{User: rules.No, Controller: rules.Yes}) {
		t.Errorf("of a Job with a TTL: %+v", have)
	}
	if behind.last.Resource != "jobs" || behind.last.Group != "batch" || behind.last.Namespace != "ci" {
		t.Errorf("asked about %+v", behind.last)
	}
	behind.asked = nil
	bare := *policy.JobProfile
	bare.Resource = ""
	for _, have := range []rules.Access{review(policy.JobProfile, nil), review(&bare, ttl)} {
		if have != (rules.Access{}) || len(behind.asked) > 0 {
			t.Errorf("asked %q without need: %+v", behind.asked, have)
		}
	}
}
