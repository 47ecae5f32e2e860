package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Delete is a DELETE that went through a proxy.
type Delete struct {
	// At is when it arrived.
	At                        time.Time
	Resource, Namespace, Name string
	// Options are what its body said.
	Options metav1.DeleteOptions
	// Status is the code of the answer; 0 while there is none. Answered is when it came.
	Status   int
	Answered time.Time
	// FlowSchema is the UID of the one that the API server counted it to.
	FlowSchema string
}

func (p *Proxy) arrived(path string, dryRun bool, body []byte) *Delete {
	record := &Delete{At: time.Now()}
	record.Resource, record.Namespace, record.Name = Target(path)
	// A body that cannot be read leaves no preconditions in the record, and the API server refuses it.
	_ = decodeOptions(body, &record.Options)
	if dryRun && len(record.Options.DryRun) == 0 {
		record.Options.DryRun = []string{metav1.DryRunAll}
	}
	p.update(func() { p.deletes = append(p.deletes, record) })
	return record
}

// protobufPrefix heads each protobuf body of Kubernetes.
var protobufPrefix = []byte("k8s\x00")

func decodeOptions(body []byte, options *metav1.DeleteOptions) error {
	inner, ok := bytes.CutPrefix(body, protobufPrefix)
	if !ok {
		return json.Unmarshal(body, options)
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(inner); err != nil {
		return err
	}
	return options.Unmarshal(unknown.Raw)
}

func (p *Proxy) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

// Deletes are the DELETEs of an object so far, in their order.
func (p *Proxy) Deletes(namespace, name string) []Delete {
	found, _ := p.deletesNow(namespace, name)
	return found
}

func (p *Proxy) deletesNow(namespace, name string) ([]Delete, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []Delete
	for _, record := range p.deletes {
		if record.Namespace == namespace && record.Name == name {
			found = append(found, *record)
		}
	}
	return slices.Clip(found), p.changed
}

// AwaitDeletes waits until so many DELETEs of an object have been answered, and returns what there
// is then or when the context ends.
func (p *Proxy) AwaitDeletes(ctx context.Context, namespace, name string, count int) []Delete {
	ctx, end := Waiting(ctx, fmt.Sprintf("%d DELETEs of %s/%s", count, namespace, name))
	defer end()
	for {
		found, changed := p.deletesNow(namespace, name)
		answered := 0
		for _, record := range found {
			if record.Status != 0 {
				answered++
			}
		}
		if answered >= count {
			return found
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return found
		}
	}
}

// deletes reports whether a request is a DELETE of an object.
func deletes(r *http.Request, namespace, name string) bool {
	_, ns, target := Target(r.URL.Path)
	return r.Method == http.MethodDelete && ns == namespace && target == name
}

// BeforeDelete runs a function the first time that a DELETE of the object arrives, before the API
// server sees it. Removing it waits until the function has returned, so that it never outlives the
// test that it belongs to.
func (p *Proxy) BeforeDelete(namespace, name string, do func()) (remove func()) {
	var started sync.Once
	var running sync.WaitGroup
	running.Add(1)
	removeHook := p.Handle(func(_ http.ResponseWriter, r *http.Request) bool {
		if !deletes(r, namespace, name) {
			return false
		}
		started.Do(func() {
			defer running.Done() // it may panic, to break the connection
			do()
		})
		return false
	})
	return func() {
		removeHook()
		started.Do(running.Done) // it never ran; sync.Once also waits for one that runs
		running.Wait()
	}
}

// Refuse answers an object's DELETEs with a code as the API server would, the first so many times.
func (p *Proxy) Refuse(namespace, name string, code, times int, header http.Header) (remove func()) {
	left := make(chan struct{}, times)
	for range times {
		left <- struct{}{}
	}
	return p.Handle(func(w http.ResponseWriter, r *http.Request) bool {
		if !deletes(r, namespace, name) {
			return false
		}
		select {
		case <-left:
		default:
			return false
		}
		for key, values := range header {
			w.Header()[key] = values
		}
		Fail(w, code)
		return true
	})
}

// Fail answers with a code, as the API server would.
func Fail(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	status := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(code), Message: "refused by a test"}
	// The client may be gone, which is its affair.
	_ = json.NewEncoder(w).Encode(status)
}
