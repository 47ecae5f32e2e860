package main

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestWaitFailsWhereItKnows: a release fails where the webhook is not called, and not where another
// admission policy refuses what is tried.
func TestWaitFailsWhereItKnows(t *testing.T) {
	namespaces := corev1.SchemeGroupVersion.WithResource("namespaces")
	for name, test := range map[string]struct {
		answer error
		fails  bool
	}{
		"not called":        {nil, true},
		"cannot be called":  {apierrors.NewInternalError(errors.New(`failed calling webhook "namespaces.curfew.dev"`)), true},
		"no answer":         {errors.New("connection refused"), true},
		"refused by others": {apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "x", errors.New("label team is required")), false},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
			client.PrependReactor("create", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
				return true, action.(clienttesting.CreateAction).GetObject(), test.answer
			})
			err := waitForWebhooks(t.Context(), client.Resource(namespaces), time.Minute, io.Discard)
			if (err != nil) != test.fails {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}
