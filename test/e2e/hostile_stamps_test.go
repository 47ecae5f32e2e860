package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/wellknown"
)

// A deletionTimestamp in a server-side apply that creates means nothing, and neither does a stamp
// that Curfew would not have written.
func TestHostileStamps(t *testing.T) {
	s := bounded(t)
	s.may("ann", "create", "get", "patch")
	// The API server keeps the deletionTimestamp of a server-side apply that creates, so that only a
	// finalizer keeps the Job.
	apply := func(name, spec, annotations string) hostile {
		return serverSideApply(s.jobsPath()+"/"+name, `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"`+name+`","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["`+foreignFinalizer+`"],
			"annotations":{`+annotations+`}},"spec":{`+spec+`"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"busybox:1.37"}]}}}}`)
	}
	long := fmt.Sprintf(`"ttlSecondsAfterFinished":%d,`, int(tooLong.Seconds()))
	s.refusesHostile("a deletionTimestamp", apply("deleted", long, ``), "spec.ttlSecondsAfterFinished")
	s.refusesHostile("a deletionTimestamp and a stamp", apply("both", long, `"curfew.dev/ttl-source":"namespace/`+s.name+`"`), "spec.ttlSecondsAfterFinished")
	s.refusesHostile("a stamp", s.creation(s.jobsPath(), job("stamped", native(tooLong), annotated(wellknown.AnnotationTTLSource, "namespace/"+s.name))), "spec.ttlSecondsAfterFinished")

	// Who may not delete is told so, and the stamp is Curfew's.
	forged := apply("forged", `"ttlSecondsAfterFinished":30,`, `"curfew.dev/ttl-source":"namespace/`+s.name+`"`)
	forged.as = "ann"
	got := s.send(forged)
	if warnings := strings.Join(got.warnings, "\n"); got.code != http.StatusCreated || !strings.Contains(warnings, "but you may not delete it yourself") || !strings.Contains(warnings, "under 60s") {
		t.Errorf("a forged stamp of one who may not delete: %s", got)
	}
	if source := s.getJob("forged").Annotations[wellknown.AnnotationTTLSource]; source != "object" {
		t.Errorf("its ttl-source is %q, want object", source)
	}

	// A stamp without a value does not opt out of the default.
	defaulted := newSpace(t, wellknown.AnnotationDefaultTTL, "1d")
	for i, stamped := range []hostile{
		defaulted.creation(defaulted.jobsPath(), job("job-0", annotated(wellknown.AnnotationTTLSource, "namespace/"+defaulted.name))),
		serverSideApply(defaulted.jobsPath()+"/job-1", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"job-1","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["`+foreignFinalizer+`"],
			"annotations":{"curfew.dev/ttl-source":"namespace/`+defaulted.name+`"}},
			"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"busybox:1.37"}]}}}}`),
	} {
		if got := defaulted.send(stamped); got.code != http.StatusCreated {
			t.Errorf("create: %s", got)
			continue
		}
		created := defaulted.getJob("job-" + strconv.Itoa(i))
		if seconds := created.Spec.TTLSecondsAfterFinished; seconds == nil || *seconds != 86400 || created.Annotations[wellknown.AnnotationTTLSource] != "namespace/"+defaulted.name {
			t.Errorf("%s got TTL %v from %q", created.Name, seconds, created.Annotations[wellknown.AnnotationTTLSource])
		}
	}
}

// serverSideApply creates an object that does not exist.
func serverSideApply(path, object string) hostile {
	return hostile{method: http.MethodPatch, path: path + "?fieldManager=hostile&force=true", contentType: "application/apply-patch+yaml", body: []byte(object)}
}
