package e2e

import (
	"testing"

	"curfew.dev/curfew/policy/wellknown"
)

// With bounds.protect: Deny, only users who may update that policy protect objects. A protected
// object stays protected.
func TestPolicyDeniesProtection(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	name := s.policy("protect", "", `bounds: {protect: Deny}`)
	s.may("ann", "create", "get", "patch", "delete")
	protected := s.manifest(job("protected", annotated(wellknown.AnnotationProtect, "true")))
	for s.ctx.Err() == nil && !s.kubectlInput(protected, "--as=ann", "create", "--dry-run=server", "-f", "-").failed {
	}
	const refusal = "metadata.annotations[curfew.dev/protect]: "
	reason := `is against bounds.protect of policy "` + name + `": leave it out, or ask for the verb update on that LifecyclePolicy`
	s.expectRefusal(s.kubectlInput(protected, "--as=ann", "create", "-f", "-"), denied("validate-marked.curfew.dev", refusal+reason))
	s.expectStderr(s.kubectlInput(s.manifest(job("plain", inTemplate(hold, "true"))), "--as=ann", "create", "-f", "-"))
	s.expectRefusal(s.kubectl("--as=ann", "annotate", "job", "plain", wellknown.AnnotationProtect+"=true"),
		`Error from server (Forbidden): admission webhook "validate-marked.curfew.dev" denied the request: `+refusal+reason)
	s.expectStderr(s.kubectl("annotate", "job", "plain", wellknown.AnnotationProtect+"=true"))
	s.expectStderr(s.kubectl("--as=ann", "annotate", "job", "plain", wellknown.AnnotationTTL+"=1h"))
}
