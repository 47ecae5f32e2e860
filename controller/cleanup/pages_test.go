package cleanup

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/v1alpha1"
)

func (c *cluster) writePage(_ context.Context, page *page) error {
	return c.request(func() error {
		_, exists := c.pages[page.name]
		switch reports := (schema.GroupResource{Resource: v1alpha1.ClusterCleanupReports}); {
		case page.version == "" && exists:
			return apierrors.NewAlreadyExists(reports, page.name)
		case page.version != "" && !exists:
			return apierrors.NewNotFound(reports, page.name)
		case exists && page.version != c.versionOf(page.name):
			return apierrors.NewConflict(reports, page.name, errors.New("it was changed"))
		}
		c.pages[page.name] = *page.fields.DeepCopy()
		c.written[page.name]++
		page.version = c.versionOf(page.name)
		return nil
	})
}

func (c *cluster) versionOf(page string) string { return fmt.Sprint(1 + c.written[page]) }

func (c *cluster) readPage(_ context.Context, name string) (out *v1alpha1.CleanupReportFields, version string, err error) {
	err = c.request(func() error {
		page, ok := c.pages[name]
		if ok {
			version = c.versionOf(name)
		}
		if ok && page.Policy.UID == "policy" {
			out = page.DeepCopy()
		}
		return nil
	})
	return out, version, err
}

func (c *cluster) owned(context.Context) error { return nil }

// A page is written in the version that this process knows, and has nothing left of what was there
// before. Users may change and delete it; what another leader wrote stays.
func TestPagesAreReplaced(t *testing.T) {
	s := newServer(t)
	l := &leader{server: s, send: func(effect func() error) error { return effect() }}
	store := newStore(clock.RealClock{}, l.controller().options.Objects, tmpPolicy(t, nothing), s.policy.GetResourceVersion(), s.status())
	ledger, reference := &ledger{store: store}, v1alpha1.PolicyReference{Name: "p", UID: "policy"}
	full := v1alpha1.CleanupReportFields{
		Policy: reference, Run: "run", Page: 1, DryRun: true, Deleted: 1, Truncated: true, Objects: []v1alpha1.CleanupItem{{Kind: "ConfigMap", Name: "a", UID: "1"}},
		Summary: []v1alpha1.SummaryCount{{Kind: "ConfigMap", Count: 1}}, Matched: []byte("x"),
	}
	empty := v1alpha1.CleanupReportFields{Policy: reference, Run: "run", Page: 1}
	p := &page{name: "page", fields: full}
	check := func(what string, err error) {
		t.Helper()
		got, version, reading := store.readPage(t.Context(), "page")
		if err != nil || reading != nil || !equality.Semantic.DeepEqual(*got, p.fields) || version != p.version {
			t.Errorf("%s: %v, %v: got %+v in version %s, want %+v in %s", what, err, reading, got, version, p.fields, p.version)
		}
	}
	check("there is none", store.writePage(t.Context(), p))
	p.fields = empty
	check("there is one", ledger.rewrite(t.Context(), p))
	eachPage(func(page *unstructured.Unstructured) { page.SetAnnotations(map[string]string{"a": "b"}) })(s)
	p.fields = full
	check("it was labelled", ledger.rewrite(t.Context(), p))
	clear(s.pages)
	check("it was deleted", ledger.rewrite(t.Context(), p))
	if err := store.writePage(t.Context(), &page{name: "page", fields: empty}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("it was created a second time: %v", err)
	}
	check("it was to be created a second time", nil)
	stale := *p
	p.fields = empty
	check("another leader writes it", ledger.rewrite(t.Context(), p))
	s.setStatus(v1alpha1.CleanupPolicyStatus{Deleted: 1})
	if err := ledger.rewrite(t.Context(), &stale); !errors.Is(err, errOvertaken) {
		t.Errorf("a process that does not lead any more writes it: %v", err)
	}
	check("after the process that does not lead any more", nil)
}

// A dry run replaces its own page, and none that counts.
func TestDryRunReplacesItsOwnPages(t *testing.T) {
	c := newCluster(t)
	ledger, reference := &ledger{store: c}, v1alpha1.PolicyReference{Name: "p", UID: "policy"}
	c.pages["dry"], c.pages["live"] = v1alpha1.CleanupReportFields{Policy: reference, DryRun: true}, v1alpha1.CleanupReportFields{Policy: reference}
	for name, fits := range map[string]func(error) bool{"dry": func(err error) bool { return err == nil }, "live": apierrors.IsAlreadyExists} {
		err := ledger.replace(t.Context(), &page{name: name, fields: v1alpha1.CleanupReportFields{Policy: reference, DryRun: true, Deleted: 1}})
		if written := c.pages[name].Deleted == 1; !fits(err) || written != (err == nil) {
			t.Errorf("%s: %v, written: %t", name, err, written)
		}
	}
}
