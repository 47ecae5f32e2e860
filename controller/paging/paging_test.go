package paging

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestResume(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old")
	goesOn := apierrors.NewResourceExpired("too old")
	goesOn.ErrStatus.Continue = "token"
	for name, c := range map[string]struct {
		err  error
		next string
	}{
		"no error":        {nil, ""},
		"another error":   {errors.New("refused"), ""},
		"without a token": {expired, ""},
		"with a token":    {goesOn, "token"},
		"wrapped":         {fmt.Errorf("listing jobs: %w", goesOn), "token"},
	} {
		if next, ok := Resume(c.err); next != c.next || ok != (c.next != "") {
			t.Errorf("%s: %q, %v", name, next, ok)
		}
	}
}
