package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/webhook/wire"
)

// ServeHTTP implements [http.Handler]. The API server treats an AdmissionReview with allowed=false
// under a 200 as a rejection, whatever its code (apiserver,
// webhook/{mutating,validating}/dispatcher.go). The failure policy only decides if the call fails,
// so an error has the HTTP status of one.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status, err := acceptable(r); err != nil {
		if status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", http.MethodPost)
		}
		h.unreviewed(w, refused(status, err))
		return
	}
	// A slow body would keep memory that others wait for.
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(bodyTimeout))
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	// One byte more than a small review may have shows a large one.
	begun, err := readAll((*buffer)[:0], io.LimitReader(r.Body, smallReview+1))
	*buffer = begun[:0]
	switch {
	case err != nil:
		h.unreviewed(w, refused(http.StatusBadRequest, fmt.Errorf("the body could not be read to its end: %w", err)))
		return
	case len(begun) == 0:
		h.unreviewed(w, refused(http.StatusBadRequest, errors.New("the body is empty: send an AdmissionReview")))
		return
	}
	reviewed := false
	out := h.webhooks.load.review(r, begun, func(review *wire.Review) answer {
		reviewed = true
		_ = connection.SetReadDeadline(time.Time{})
		return h.handle(r.Context(), review)
	})
	if reviewed {
		h.write(w, out)
		return
	}
	h.unreviewed(w, out)
}

// bodyTimeout is how long a body may take to arrive. The API server gives the whole review 5
// seconds.
const bodyTimeout = 5 * time.Second

// unreviewed answers a request that is not a review, or is too large. No API server sends the
// former, so it is not logged as an error: anyone could fill the log.
func (h *handler) unreviewed(w http.ResponseWriter, out answer) {
	// The API server ignores a denial without the UID of its review.
	if out.outcome == outcomeThrottled && out.response.UID == "" {
		out.outcome, out.status = outcomeInvalid, int(out.response.Result.Code)
	}
	h.webhooks.log.V(1).Info("a request was not reviewed", "webhook", h.name, "status", out.response.Result.Code, "reason",
		out.response.Result.Message)
	h.webhooks.metrics.reviewed(h.name, otherKind, "other", out.outcome, 0)
	h.write(w, out)
}

// acceptable returns why a request cannot be a review, regardless of its body.
func acceptable(r *http.Request) (int, error) {
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, fmt.Errorf("the method is %s: POST an AdmissionReview", r.Method)
	}
	if contentType := r.Header.Get("Content-Type"); contentType != "application/json" {
		if kind, _, err := mime.ParseMediaType(contentType); err != nil || kind != "application/json" {
			return http.StatusUnsupportedMediaType, fmt.Errorf("the Content-Type is %q: send application/json", quote.Shorten(contentType))
		}
	}
	return http.StatusOK, nil
}

// buffers are for small bodies and for answers.
var buffers = sync.Pool{New: func() any { return new(make([]byte, 0, 16<<10)) }}

// readAll appends everything from a reader.
func readAll(to []byte, from io.Reader) ([]byte, error) {
	for {
		if len(to) == cap(to) {
			to = append(to, 0)[:len(to)]
		}
		n, err := from.Read(to[len(to):cap(to)])
		to = to[:len(to)+n]
		if errors.Is(err, io.EOF) {
			return to, nil
		}
		if err != nil {
			return to, err
		}
	}
}

// jsonType is shared by all answers and never changed.
var jsonType = []string{"application/json"}

// write sends an answer.
func (h *handler) write(w http.ResponseWriter, answer answer) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	body, err := wire.AppendAnswer((*buffer)[:0], &answer.response)
	*buffer = body[:0]
	if err != nil {
		h.webhooks.log.Error(err, "an answer could not be written", "webhook", h.name)
		http.Error(w, "curfew could not write its answer", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header["Content-Type"] = jsonType
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(answer.status)
	// The caller may have disconnected.
	_, _ = w.Write(body)
}

const (
	// DefaultMaxReview bounds the size of a review: two objects of 3 MiB, the API server's own limit,
	// whose <, > and & the API server escapes sixfold, and the request around them.
	DefaultMaxReview = 40 << 20
	// DefaultMemory is shared by reviews if there is no memory limit.
	DefaultMemory = 512 << 20
	// smallReview is the size up to which reviews have a pool of their own.
	smallReview = 128 << 10
	// defaultPatience is how long a review waits for memory. The API server gives it 5 seconds in all.
	defaultPatience = 2 * time.Second
	// retryAfter is sent to a review that waited too long, in seconds.
	retryAfter = 1
)

// load distributes memory among reviews, so that no number or kind of them exhausts the process
// (S9). A review that gets none is denied: an error would let the object pass unreviewed.
type load struct {
	maxReview int64
	patience  time.Duration
	// bodies is for the texts of large reviews, decoded for the objects in them. A review that has its
	// share of decoded waits for nothing else.
	bodies, decoded, small *semaphore.Weighted
	// compiling is for reviews that compile expressions: as many as are compiled at once.
	compiling *semaphore.Weighted
	// room is the size of decoded, spare that of small.
	room, spare int64
	// large counts the large reviews that have arrived, waiting ones included.
	large atomic.Int32
}

func newLoad(maxReview, memory int64) *load {
	maxReview = cmp.Or(maxReview, DefaultMaxReview)
	memory = cmp.Or(memory, DefaultMemory)
	l := &load{maxReview: maxReview, patience: defaultPatience, room: memory / 2, spare: memory / 8}
	l.bodies, l.decoded, l.small = semaphore.NewWeighted(max(memory/8, 2*maxReview)), semaphore.NewWeighted(l.room),
		semaphore.NewWeighted(l.spare)
	l.compiling = semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)/2)))
	return l
}

// take waits for a share of a pool, which release returns.
func (l *load) take(ctx context.Context, pool *semaphore.Weighted, share int64) (release func(), ok bool) {
	if !pool.TryAcquire(share) {
		ctx, cancel := context.WithTimeout(ctx, l.patience)
		defer cancel()
		if pool.Acquire(ctx, share) != nil {
			return nil, false
		}
	}
	return func() { pool.Release(share) }, true
}

// review reads, decodes and answers a request, the beginning of whose body was read before.
func (l *load) review(r *http.Request, begun []byte, handle func(*wire.Review) answer) answer {
	if len(begun) <= smallReview {
		return l.decode(r.Context(), string(begun), l.small, l.spare, handle)
	}
	size := r.ContentLength
	if size < 0 {
		size = l.maxReview
	}
	deny := func(out answer) answer {
		out.response.UID = wire.UID(string(begun))
		// To the API server a connection that is closed while it writes is an error.
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 2*l.maxReview))
		return out
	}
	if size > l.maxReview {
		return deny(tooLarge(l.maxReview))
	}
	var text strings.Builder
	text.Write(begun)
	held, err := l.read(r, &text, size)
	defer l.bodies.Release(held)
	switch {
	case errors.Is(err, errNoMemory):
		return deny(throttled())
	case err != nil:
		return refused(http.StatusBadRequest, fmt.Errorf("the body could not be read to its end: %w", err))
	case int64(text.Len()) > size:
		return deny(tooLarge(l.maxReview))
	}
	l.large.Add(1)
	defer l.large.Add(-1)
	return l.decode(r.Context(), text.String(), l.decoded, l.room, handle)
}

// bodyStep is for how much of a body memory is taken at once.
const bodyStep = smallReview

var errNoMemory = errors.New("no memory for the body")

// read reads a body of at most size bytes, and one more if it is longer. It takes memory for what
// arrives, not for what was announced: a connection that sends nothing must not keep others
// waiting. The caller releases what it held.
func (l *load) read(r *http.Request, text *strings.Builder, size int64) (held int64, err error) {
	ctx, cancel := context.WithTimeout(r.Context(), bodyTimeout)
	defer cancel()
	for {
		if _, ok := l.take(ctx, l.bodies, bodyStep); !ok {
			return held, errNoMemory
		}
		held += bodyStep
		step := min(bodyStep, size+1-int64(text.Len()))
		switch n, err := io.CopyN(text, r.Body, step); {
		case errors.Is(err, io.EOF):
			return held, nil
		case err != nil:
			return held, err
		case n == 0 || int64(text.Len()) > size:
			return held, nil
		}
	}
}

func (l *load) decode(ctx context.Context, text string, pool *semaphore.Weighted, room int64, handle func(*wire.Review) answer) answer {
	share := wire.Weigh(text)
	deny := func(out answer) answer {
		out.response.UID = wire.UID(text)
		return out
	}
	if share > room {
		return deny(tooDense())
	}
	release, ok := l.take(ctx, pool, share)
	if !ok {
		return deny(throttled())
	}
	defer release()
	review, err := wire.Parse(text)
	if err != nil {
		return refused(http.StatusBadRequest, err)
	}
	return handle(review)
}

// throttled denies a review that got no memory in time.
func throttled() answer {
	out := shed(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests,
		"curfew has no memory to review so large an object right now: try again in a second", helpSize)
	out.response.Result.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfter}
	return out
}

func tooLarge(most int64) answer {
	return shed(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge,
		fmt.Sprintf("the review of this object has more than %d bytes, so that curfew cannot review it: "+
			"use a smaller one, or raise --max-review-size", most), helpSize)
}

func tooDense() answer {
	return shed(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge,
		"this object has more parts than curfew has memory to review: use a smaller one, or give curfew's webhook more memory", helpSize)
}

// shed denies a request without a review. It is a decision, because the failure policy would decide
// about an error.
func shed(code int32, reason metav1.StatusReason, message, help string) answer {
	response := admissionv1.AdmissionResponse{Result: failure(code, reason, withHelp(message, help))}
	response.AuditAnnotations = audit(outcomeThrottled, nil, "")
	return answer{response: response, outcome: outcomeThrottled, status: http.StatusOK}
}

// metrics of admission. No label is a namespace or a name.
type metrics struct {
	reviews     *prometheus.CounterVec
	dropped     prometheus.Counter
	unevaluated prometheus.Counter
	latency     *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "curfew_admission_reviews_total",
			Help: "Admission requests by webhook, operation, kind and decision (allowed, defaulted, denied, throttled, invalid, error).",
		}, []string{"webhook", "operation", "group", "kind", "decision"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "curfew_admission_patch_dropped_total",
			Help: "Patches that did not apply to the object they were made for and were not sent.",
		}),
		unevaluated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "curfew_admission_policy_errors_total",
			Help: "Expressions of LifecyclePolicies that could not be evaluated for an object; it is kept, and not refused.",
		}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "curfew_admission_duration_seconds",
			Help:    "Time from a decoded request to its answer.",
			Buckets: []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"webhook"}),
	}
	var errs []error
	for _, collector := range []prometheus.Collector{m.reviews, m.dropped, m.unevaluated, m.latency} {
		errs = append(errs, registerer.Register(collector))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("registering the webhooks' metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) reviewed(webhook string, kind schema.GroupKind, operation string, outcome outcome, took time.Duration) {
	switch operation {
	case "CREATE", "UPDATE", "DELETE", "CONNECT":
	default:
		operation = "other"
	}
	m.reviews.WithLabelValues(webhook, operation, kind.Group, kind.Kind, string(outcome)).Inc()
	// A clock that jumped back between the readings is no latency.
	m.latency.WithLabelValues(webhook).Observe(max(took, 0).Seconds())
}
