package webhookconfig

import (
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// An older state of the static configuration never takes a CA out that the webhook has injected,
// and a CA that is missing is added.
func TestKeeperNeverTakesTrustAway(t *testing.T) {
	kinds := jobSets(t)
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, kinds)
		s.mutating.set(t, staticMutating())
		after(2 * time.Second)
		s.mutating.sent()
		inject := func(bundle string) {
			s.mutating.editWebhooks(t, func(w *admissionv1.MutatingWebhook) { w.ClientConfig.CABundle = []byte(bundle) })
			after(2 * time.Second)
		}
		inject("next bundle") // "bundle" is still what the static configuration has.
		s.mutating.expect(t, "a CA was injected here first")
		inject("other")
		s.mutating.expect(t, "the CA was taken out", "update")
		if got := string(s.mutating.get(t).Webhooks[0].ClientConfig.CABundle); got != "bundle" {
			t.Errorf("its bundle is %q", got)
		}
	})
}

// Where cert-manager's cainjector injects, its annotation is copied, and the bundle is left to it.
func TestKeeperCopiesTheInjectionAnnotation(t *testing.T) {
	kinds := jobSets(t)
	const key = "cert-manager.io/inject-ca-from"
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, kinds)
		static := staticMutating()
		static.Annotations = map[string]string{key: "curfew-system/curfew-webhook", "other": "x"}
		s.mutating.set(t, static)
		after(2 * time.Second)
		s.mutating.expect(t, "first", "create")
		if got := s.mutating.get(t).Annotations; got[key] != "curfew-system/curfew-webhook" || len(got) != 1 {
			t.Errorf("its annotations are %v", got)
		}
		for i := range static.Webhooks {
			static.Webhooks[i].ClientConfig.CABundle = []byte("rotated")
		}
		s.mutating.set(t, static)
		after(2 * time.Second)
		s.mutating.expect(t, "the cainjector will bring the same here")

		static.Annotations = nil
		s.mutating.set(t, static)
		after(2 * time.Second)
		s.mutating.expect(t, "Curfew injects again", "update")
		if got := s.mutating.get(t); len(got.Annotations) > 0 || string(got.Webhooks[0].ClientConfig.CABundle) != "rotated" {
			t.Errorf("its annotations are %v, its bundle %s", got.Annotations, got.Webhooks[0].ClientConfig.CABundle)
		}
	})
}
