package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEach(t *testing.T) {
	goesOn := apierrors.NewResourceExpired("too old")
	goesOn.ErrStatus.Continue = "b2"
	errBroken, expired := errors.New("broken"), apierrors.NewResourceExpired("too old")
	for name, c := range map[string]struct {
		errs  map[string]error
		takes error
		err   error
		read  string
	}{
		"three pages":         {read: "a b c"},
		"the snapshot is old": {errs: map[string]error{"b": fmt.Errorf("listing: %w", goesOn)}, read: "a b2 c"},
		"without a token":     {errs: map[string]error{"b": expired}, err: expired, read: "a"},
		"an error":            {errs: map[string]error{"b": errBroken}, err: errBroken, read: "a"},
		"an error of take":    {takes: errBroken, err: errBroken, read: "a"},
	} {
		next, versions := map[string]string{"": "b", "b": "c", "b2": "c"}, map[string]string{"": "7", "b2": "9"}
		list := func(_ context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
			text := options.Continue
			if (text == "") != (options.Limit == firstLimit) || options.Limit > Limit {
				t.Errorf("%s: limit %d at %q", name, options.Limit, text)
			}
			page := &metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: cmp.Or(text, "a")}}}}
			page.Continue, page.ResourceVersion = next[text], versions[text]
			return page, c.errs[text]
		}
		var read []string
		value, err := Each(t.Context(), metav1.ListOptions{}, list, func(page *metav1.PartialObjectMetadataList) error {
			read = append(read, page.Items[0].Name)
			return c.takes
		})
		if !errors.Is(err, c.err) || value != "7" || strings.Join(read, " ") != c.read {
			t.Errorf("%s: read %q at %q, %v", name, read, value, err)
		}
	}
}

// A list that is only ever resumed ends with the error.
func TestEachResumesAFewTimes(t *testing.T) {
	goesOn, asked, pages := apierrors.NewResourceExpired("too old"), 0, 0
	goesOn.ErrStatus.Continue = "again"
	list := func(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		switch asked++; {
		case asked > 100:
			return &metav1.PartialObjectMetadataList{}, nil
		case asked == maxResumes+1:
			page := &metav1.PartialObjectMetadataList{}
			page.Continue = "more"
			return page, nil
		}
		return nil, goesOn
	}
	_, err := Each(t.Context(), metav1.ListOptions{}, list, func(*metav1.PartialObjectMetadataList) error { pages++; return nil })
	if !errors.Is(err, goesOn) || pages != 1 || asked != 2*(maxResumes+1) {
		t.Errorf("asked %d times for %d pages: %v", asked, pages, err)
	}
}

// A page that is too large is read in parts, whatever limit the caller asks for, and the next ones
// are as small.
func TestEachReadsLargeObjects(t *testing.T) {
	const objects, fit = 100, 4
	for _, limit := range []int64{0, 10, 500} {
		read, limits := 0, []int64(nil)
		list := func(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
			a, bounded := ctx.Value(answerKey{}).(*answer)
			if !bounded {
				t.Fatal("the client does not know that the page is bounded")
			}
			if limits = append(limits, options.Limit); options.Limit > fit {
				return nil, fmt.Errorf("listing: %w", apierrors.NewRequestEntityTooLargeError("too many large objects"))
			}
			page := &metav1.PartialObjectMetadataList{Items: make([]metav1.PartialObjectMetadata, options.Limit)}
			if a.size = int64(len(page.Items)) * maxBytes / (fit + 1); read+len(page.Items) < objects {
				page.Continue = "more"
			}
			return page, nil
		}
		_, err := Each(t.Context(), metav1.ListOptions{Limit: limit}, list, func(page *metav1.PartialObjectMetadataList) error {
			read += len(page.Items)
			return nil
		})
		if err != nil || read < objects || len(limits) > 3+objects {
			t.Errorf("limit %d: read %d in pages of %d, %v", limit, read, limits, err)
		}
	}
}
