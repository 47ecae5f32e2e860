package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// record takes the first events of a real watch of Jobs that begins with the list (KEP-3157), as
// they come over the wire.
func record(ctx context.Context, e *environment, events int) (*recording, error) {
	client, err := kubernetes.NewForConfig(connect(e.config))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	stream, err := client.BatchV1().RESTClient().Get().Resource("jobs").
		Param("watch", "true").Param("sendInitialEvents", "true").Param("allowWatchBookmarks", "true").
		Param("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan)).
		SetHeader("Accept", "application/vnd.kubernetes.protobuf;stream=watch").Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("watch Jobs to record: %w", err)
	}
	defer stream.Close()
	in := bufio.NewReaderSize(stream, 1<<16)
	r := &recording{}
	for len(r.templates) < events {
		frame, err := readFrame(in)
		if err != nil {
			return nil, fmt.Errorf("record a watch: %w", err)
		}
		kind, job, err := decodeEvent(frame)
		switch {
		case err != nil:
			return nil, fmt.Errorf("record a watch: %w", err)
		case kind != watch.Added:
			return nil, fmt.Errorf("record a watch: an event %s after %d of %d Jobs", kind, len(r.templates), events)
		}
		t, err := newTemplate(job)
		if err != nil {
			return nil, err
		}
		r.templates = append(r.templates, t)
	}
	return r, nil
}

// recording is a watch of any length, made of the events of a real one: the same Jobs again and
// again, each time with names, UIDs and resourceVersions of their own.
type recording struct{ templates []*template }

// template is one recorded event and where in it stands what tells one Job from another.
type template struct {
	frame            []byte // with its length in front
	names, uids, rvs []int  // offsets in frame
	job, jobEnd      int    // where the Job itself stands in frame
}

// What stands in a template where each Job has its own. As long as what takes its place.
const (
	anyName    = backlogPrefix + "-======="
	anyUID     = "########-####-####-####-############"
	anyVersion = "@@@@@@@@@@"
)

// firstVersion is the resourceVersion of the first Job. All have as many digits.
const firstVersion = 1_000_000_000

func newTemplate(job *batchv1.Job) (*template, error) {
	name, uid := job.Name, string(job.UID)
	job.Name, job.UID, job.ResourceVersion = anyName, anyUID, anyVersion
	for _, m := range []map[string]string{job.Labels, job.Spec.Template.Labels} {
		rename(m, name, uid)
	}
	if job.Spec.Selector != nil {
		rename(job.Spec.Selector.MatchLabels, name, uid)
	}
	raw, err := job.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode a Job: %w", err)
	}
	frame, err := encodeFrame(watch.Added, raw)
	if err != nil {
		return nil, err
	}
	t := &template{frame: frame, names: offsets(frame, anyName), uids: offsets(frame, anyUID), rvs: offsets(frame, anyVersion)}
	if t.job = bytes.Index(frame, raw); t.job < 0 || len(t.names) == 0 || len(t.uids) == 0 || len(t.rvs) != 1 {
		return nil, fmt.Errorf("the event of Job %s is not laid out as expected: this is a bug", name)
	}
	t.jobEnd = t.job + len(raw)
	return t, nil
}

func rename(labels map[string]string, name, uid string) {
	for key, value := range labels {
		switch value {
		case name:
			labels[key] = anyName
		case uid:
			labels[key] = anyUID
		}
	}
}

// encodeFrame makes an event of an encoded Job, with its length in front.
func encodeFrame(kind watch.EventType, job []byte) ([]byte, error) {
	object, err := wrap("Job", job)
	if err != nil {
		return nil, err
	}
	event := metav1.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: object}}
	raw, err := event.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode an event: %w", err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...), nil
}

// wrap is the reverse of unwrap.
func wrap(kind string, raw []byte) ([]byte, error) {
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "batch/v1", Kind: kind}, Raw: raw}
	data, err := u.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode an envelope: %w", err)
	}
	return append([]byte("k8s\x00"), data...), nil
}

func offsets(in []byte, what string) (at []int) {
	for from := 0; ; {
		i := bytes.Index(in[from:], []byte(what))
		if i < 0 {
			return at
		}
		at = append(at, from+i)
		from += i + len(what)
	}
}

// event appends the event of the Job of that number.
func (r *recording) event(to []byte, i int) []byte {
	t, from := r.templates[i%len(r.templates)], len(to)
	to = append(to, t.frame...)
	t.fill(to[from:], i)
	return to
}

// item appends the Job of that number as it stands in a list.
func (r *recording) item(to []byte, i int) []byte {
	t := r.templates[i%len(r.templates)]
	scratch := append([]byte(nil), t.frame...)
	t.fill(scratch, i)
	to = append(to, 2<<3|2) // items, by length
	to = binary.AppendUvarint(to, uint64(t.jobEnd-t.job))
	return append(to, scratch[t.job:t.jobEnd]...)
}

func (t *template) fill(frame []byte, i int) {
	name, uid, version := jobSet{prefix: backlogPrefix}.name(i), uidOf(i), strconv.Itoa(firstVersion+i)
	name = strings.Repeat("0", len(anyName)-len(name)) + name
	for _, at := range t.names {
		copy(frame[at:], name)
	}
	for _, at := range t.uids {
		copy(frame[at:], uid)
	}
	for _, at := range t.rvs {
		copy(frame[at:], version)
	}
}

// uidOf is a UUID of its own for each number, as random as the UIDs of an API server.
func uidOf(i int) types.UID {
	const hex = "0123456789abcdef"
	uid := []byte(anyUID)
	a, b := mix(uint64(i)*2), mix(uint64(i)*2+1)
	for at, c := range uid {
		if c == '-' {
			continue
		}
		uid[at] = hex[a&15]
		a = a>>4 | b<<60
		b >>= 4
	}
	return types.UID(uid)
}

// mix spreads a number over 64 bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
