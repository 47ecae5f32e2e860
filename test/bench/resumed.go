package main

import (
	"context"
	"errors"
	"io"
)

// resumed is a watch that is opened again where it ended. The API server ends a watch when its time
// is up, when the watcher falls behind, or when it closes the connection. No event is missed; one
// that comes during the gap is late by it.
type resumed struct {
	open   func(ctx context.Context, resourceVersion string) (io.ReadCloser, error)
	at     string // resourceVersion of the last event
	futile int    // how often in a row it was opened without an event
}

// futileMost bounds how often in a row a watch is opened again without an event.
const futileMost = 10

// reached notes the resourceVersion of an event.
func (w *resumed) reached(resourceVersion string) { w.at, w.futile = resourceVersion, 0 }

// run has one stream after the other read, until ctx ends, read fails, or no more events come.
func (w *resumed) run(ctx context.Context, stream io.ReadCloser, read func(io.Reader) error) error {
	for {
		err := read(stream)
		_ = stream.Close()
		for ended(err) && ctx.Err() == nil && w.futile < futileMost {
			w.futile++
			stream, err = w.open(ctx, w.at)
		}
		if err != nil {
			return err
		}
	}
}

// ended reports whether an error is the end of a connection, while reading or while opening a
// watch.
func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
