package webhook

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	// maxReview is what controller-runtime reads of a review (admission/http.go).
	maxReview = 7<<20 - 1
	// reviewTimeout is for the body, the wait for memory and the decision. The API server gives a
	// review 5 seconds.
	reviewTimeout = 3500 * time.Millisecond
	// growth is how much more memory than text the densest review takes: measured by TestGrowth.
	growth = 56
	// DefaultMemory is shared by reviews if there is no memory limit.
	DefaultMemory = 1 << 30
	// maxDiscarded is what a body has at most: two objects of 3 MiB, the API server's limit, whose <, >
	// and & it escapes sixfold, and the request around them.
	maxDiscarded = 40 << 20
)

// load bounds the memory and the time of reviews, so that no number or kind of them exhausts the
// process (S9). What gets none is denied: an error would let the object pass unreviewed.
type load struct {
	memory *semaphore.Weighted
	// large is the part of memory that reviews of half a megabyte and more have together: small ones
	// would wait behind them.
	large       *semaphore.Weighted
	room, reach int64
	timeout     time.Duration
	metrics     *metrics
	log         logr.Logger
}

func newLoad(memory int64, metrics *metrics, log logr.Logger) *load {
	room := cmp.Or(memory, DefaultMemory) / 2
	reach := room / 8 * 7
	return &load{memory: semaphore.NewWeighted(room), large: semaphore.NewWeighted(reach), room: room, reach: reach,
		timeout: reviewTimeout, metrics: metrics, log: log}
}

// busy reports whether reviews take more than half of their memory.
func (l *load) busy() bool {
	if !l.memory.TryAcquire(l.room / 2) {
		return true
	}
	l.memory.Release(l.room / 2)
	return false
}

// limited has a review wait for memory, by the size that its header announces, and read and decided
// in time. A server that stops does not cut it short.
func (l *load) limited(name string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), l.timeout)
		defer cancel()
		until, _ := ctx.Deadline()
		_ = http.NewResponseController(w).SetReadDeadline(until)
		body := bufio.NewReaderSize(r.Body, 1<<10)
		head, _ := body.Peek(1 << 10)
		r = r.WithContext(context.WithValue(ctx, headKey{}, uidOf(head)))
		size := r.ContentLength
		if size < 0 {
			size = maxReview
		}
		var denial admission.Response
		switch weight := size * growth; {
		case !bytes.HasPrefix(head, []byte("{")): // The library would read YAML and Protobuf, too.
			denial = unread(errUnread)
		case size > maxReview:
			denial = tooLarge()
		case weight > l.reach:
			denial = tooDense()
		case !l.take(ctx, weight):
			denial = throttled()
		default:
			defer l.give(weight)
			r.Body = struct {
				io.Reader
				io.Closer
			}{body, r.Body}
			next.ServeHTTP(w, r)
			return
		}
		// To the API server a connection that is closed while it writes is an error.
		_, _ = io.Copy(io.Discard, io.LimitReader(body, maxDiscarded))
		l.deny(w, r, name, denial)
	})
}

// take waits for memory, until the context ends.
func (l *load) take(ctx context.Context, weight int64) bool {
	if l.isLarge(weight) && l.large.Acquire(ctx, weight) != nil {
		return false
	}
	if l.memory.Acquire(ctx, weight) == nil {
		return true
	}
	if l.isLarge(weight) {
		l.large.Release(weight)
	}
	return false
}

func (l *load) give(weight int64) {
	l.memory.Release(weight)
	if l.isLarge(weight) {
		l.large.Release(weight)
	}
}

func (l *load) isLarge(weight int64) bool { return weight > l.room/16 }

// headKey is the key under which a context has the UID of its review.
type headKey struct{}

// uid is where an API server writes the UID of a review: within the first hundred bytes.
var uid = regexp.MustCompile(`"uid":"([\w-]{1,64})"`)

func uidOf(head []byte) types.UID {
	if found := uid.FindSubmatch(head); found != nil {
		return types.UID(found[1])
	}
	return ""
}

// refuse answers a review that could not be read.
func (l *load) refuse(w http.ResponseWriter, r *http.Request, name string, why error) {
	if until, _ := r.Context().Deadline(); !time.Now().Before(until) {
		l.deny(w, r, name, throttled())
		return
	}
	l.deny(w, r, name, unread(why))
}

// deny denies a review that has a UID. The API server ignores a denial without one, so that is a
// failed call.
func (l *load) deny(w http.ResponseWriter, r *http.Request, name string, denial admission.Response) {
	l.log.V(1).Info("a request was not reviewed", "webhook", name, "reason", denial.Result.Message)
	l.metrics.reviews.WithLabelValues(name, "other", otherKind.Group, otherKind.Kind, string(outcomeOf(&denial))).Inc()
	w.Header().Set("Content-Type", "application/json")
	if denial.UID, _ = r.Context().Value(headKey{}).(types.UID); denial.UID == "" {
		w.WriteHeader(int(denial.Result.Code))
	}
	// The caller may have disconnected.
	_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Response: &denial.AdmissionResponse})
}
