// Package paging reads lists page by page: it goes on with those that the API server ended early
// ([Resume]), and bounds pages by their size ([Sizes], [Cap]).
package paging

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Resume returns where a list goes on that took longer than the API server keeps its snapshot: 410
// with a continue token. From there on the list is not consistent with its beginning. It returns
// false for any other error.
func Resume(err error) (next string, ok bool) {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return "", false
	}
	next = status.Status().Continue
	return next, next != ""
}
