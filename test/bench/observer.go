package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// observer watches Jobs, or objects of another kind, and notes when each was first seen to be
// deleted: gone, or with a deletionTimestamp. It is the same for every contestant and knows nothing
// of them. It reads the stream by hand, so that an event's time is that of its arrival.
type observer struct {
	watch  resumed
	object func() watched
	prefix string
	cancel context.CancelFunc

	mu   sync.Mutex
	seen map[types.UID]sighting
	want int
	full chan struct{} // closed when want are seen
	err  error
	done chan struct{} // closed when it has ended for good
}

// sighting is the end of one Job.
type sighting struct {
	name string
	at   time.Time
}

// watched is an object that comes in a watch.
type watched interface {
	metav1.Object
	Unmarshal(data []byte) error
}

// observe begins to watch the Jobs of a set, from now on.
func observe(ctx context.Context, config *rest.Config, set jobSet) (*observer, error) {
	client, err := kubernetes.NewForConfig(connect(config))
	if err != nil {
		return nil, fmt.Errorf("make the observer's client: %w", err)
	}
	list, err := client.BatchV1().Jobs(benchNamespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list Jobs for the observer: %w", err)
	}
	open := func(ctx context.Context, resourceVersion string) (io.ReadCloser, error) {
		return stream(ctx, client.BatchV1().RESTClient(), "jobs", resourceVersion)
	}
	return observeWith(ctx, open, list.ResourceVersion, set, func() watched { return &batchv1.Job{} })
}

// stream opens a watch of a resource.
func stream(ctx context.Context, client rest.Interface, resource, resourceVersion string) (io.ReadCloser, error) {
	out, err := client.Get().Namespace(benchNamespace).Resource(resource).
		Param("watch", "true").Param("resourceVersion", resourceVersion).
		// Whole objects in protobuf, as the contestants' own watches of Jobs: the API server then encodes
		// each event once for all.
		SetHeader("Accept", "application/vnd.kubernetes.protobuf;stream=watch").Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("watch %s for the observer: %w", resource, err)
	}
	return out, nil
}

func observeWith(ctx context.Context, open func(context.Context, string) (io.ReadCloser, error), from string, set jobSet, object func() watched) (*observer, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := open(ctx, from)
	if err != nil {
		cancel()
		return nil, err
	}
	o := &observer{
		watch: resumed{open: open, at: from}, object: object, cancel: cancel, prefix: set.prefix + "-", want: set.count,
		seen: make(map[types.UID]sighting, set.count), full: make(chan struct{}), done: make(chan struct{}),
	}
	go func() {
		defer close(o.done)
		err := o.watch.run(ctx, stream, o.read)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.err = fmt.Errorf("the observer's watch: %w", err)
	}()
	return o, nil
}

// read notes events until the stream ends.
func (o *observer) read(stream io.Reader) error {
	in := bufio.NewReaderSize(stream, 1<<16)
	for {
		frame, err := readFrame(in)
		at := time.Now()
		if err == nil {
			err = o.note(frame, at)
		}
		if err != nil {
			return err
		}
	}
}

// frameMost bounds a frame: more is no event of ours but a misread length.
const frameMost = 16 << 20

// readFrame reads one event of a protobuf watch: its length in four bytes, then the event.
func readFrame(in io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > frameMost {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(in, frame)
	return frame, err
}

func (o *observer) note(frame []byte, at time.Time) error {
	object := o.object()
	event, err := decodeEventInto(frame, object)
	if err != nil {
		return err
	}
	o.watch.reached(object.GetResourceVersion())
	if !strings.HasPrefix(object.GetName(), o.prefix) || event != watch.Deleted && object.GetDeletionTimestamp() == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, again := o.seen[object.GetUID()]; again {
		return nil
	}
	o.seen[object.GetUID()] = sighting{object.GetName(), at}
	if len(o.seen) == o.want {
		close(o.full)
	}
	return nil
}

func decodeEvent(frame []byte) (watch.EventType, *batchv1.Job, error) {
	job := &batchv1.Job{}
	event, err := decodeEventInto(frame, job)
	return event, job, err
}

func decodeEventInto(frame []byte, object watched) (watch.EventType, error) {
	event := metav1.WatchEvent{}
	raw, err := unwrap(frame)
	if err != nil {
		return "", err
	}
	if err := event.Unmarshal(raw); err != nil {
		return "", fmt.Errorf("decode an event: %w", err)
	}
	if watch.EventType(event.Type) == watch.Error {
		return "", errors.New("the API server ended the watch with an error")
	}
	if raw, err = unwrap(event.Object.Raw); err != nil {
		return "", err
	}
	if err := object.Unmarshal(raw); err != nil {
		return "", fmt.Errorf("decode an object: %w", err)
	}
	return watch.EventType(event.Type), nil
}

// unwrap takes off the envelope that Kubernetes puts around each protobuf message. The event itself
// comes without the four bytes of magic in front.
func unwrap(data []byte) ([]byte, error) {
	inner, ok := strings.CutPrefix(string(data), "k8s\x00")
	if !ok {
		return data, nil
	}
	var u runtime.Unknown
	if err := u.Unmarshal([]byte(inner)); err != nil {
		return nil, fmt.Errorf("decode an envelope: %w", err)
	}
	return u.Raw, nil
}

// times returns when deletions were seen so far, in no order.
func (o *observer) times() []time.Time {
	var times []time.Time
	for _, s := range o.sightings() {
		times = append(times, s.at)
	}
	return times
}

// sightings returns what was seen deleted so far, in no order.
func (o *observer) sightings() []sighting {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Values(o.seen))
}

// failure is why the stream ended before it was closed, nil while it runs.
func (o *observer) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

func (o *observer) close() {
	o.cancel()
	<-o.done
}
