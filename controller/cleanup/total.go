package cleanup

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/controller/paging"
)

// total counts all objects of the matched kinds and namespaces, for maxPercentage.
func (r *run) total(ctx context.Context) (int64, error) {
	sum := int64(0)
	for i := range r.at {
		for _, namespace := range r.at[i].namespaces {
			options := metav1.ListOptions{Limit: pageSize}
			for {
				page, err := r.account.Metadata.Resource(r.at[i].GroupVersionResource).Namespace(namespace).List(ctx, options)
				if next, ok := paging.Resume(err); ok {
					options.Continue = next
					continue
				}
				if err != nil {
					return 0, fmt.Errorf("counting %s: %w", r.at[i].GroupResource(), err)
				}
				for j := range page.Items {
					if r.at[i].only == nil || r.at[i].only[page.Items[j].Namespace] {
						sum++
					}
				}
				if options.Continue = page.Continue; options.Continue == "" {
					break
				}
			}
		}
	}
	return sum, nil
}
