package settings_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/settings"
)

// applied records the applied objects.
type applied struct {
	dynamic.ResourceInterface
	errs    []error
	objects []*unstructured.Unstructured
}

func (a *applied) Apply(_ context.Context, name string, object *unstructured.Unstructured, options metav1.ApplyOptions, _ ...string) (*unstructured.Unstructured, error) {
	if name != settings.Name || options.FieldManager == "" || !options.Force {
		return nil, errors.New("not as it should be")
	}
	a.objects = append(a.objects, object)
	if i := len(a.objects) - 1; i < len(a.errs) {
		return nil, a.errs[i]
	}
	return object, nil
}

// TestPublisher: a failed write is tried again, and a report that another writer changed comes
// back.
func TestPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := &applied{errs: []error{errors.New("one"), errors.New("two")}}
		publisher := &settings.Publisher{
			ConfigMaps: target, User: func(context.Context) (string, error) { return "me", nil },
			Data: map[string]string{"dry-run": "true"}, Report: func() settings.Report { return settings.Report{} }, Changed: loop.NewSignal(), Clock: clock.RealClock{}, Log: logr.Discard(),
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- publisher.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(target.objects) != 3 {
			t.Errorf("applied %d times in a minute, want 3: two failed", len(target.objects))
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(target.objects) != 9 {
			t.Errorf("applied %d times in an hour, want 9: every ten minutes", len(target.objects))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		data, _, err := unstructured.NestedStringMap(target.objects[2].Object, "data")
		if err != nil {
			t.Error(err)
		}
		if len(data) != 4 || data["dry-run"] != "true" || data[settings.User] != "me" {
			t.Errorf("the data is %v, want dry-run, the user and the report", data)
		}
	})
}
