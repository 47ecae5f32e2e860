package stop

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestLateness: it ends with the answer to the mark, not with the request.
func TestLateness(t *testing.T) {
	s := newScene(t, map[string]any{}, time.Time{}, mark(nil))
	clock := clocktesting.NewFakePassiveClock(s.due.Expiry.Add(2 * time.Second))
	s.options.Clock = clock
	s.metadata.PrependReactor("patch", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		clock.SetTime(clock.Now().Add(500 * time.Millisecond))
		return false, nil, nil
	})
	s.attempt(t)
	var out dto.Metric
	must(t, s.lateness.WithLabelValues("example.com", "Run").(prometheus.Histogram).Write(&out))
	if sum, count := out.GetHistogram().GetSampleSum(), out.GetHistogram().GetSampleCount(); sum != 2.5 || count != 1 {
		t.Errorf("%d marks, %vs late in sum; want one, 2.5s", count, sum)
	}
}
