package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// etcd speaks to etcd through its JSON gateway, which needs no client of its own.
type etcd struct {
	url    string
	client *http.Client
}

func newEtcd(url string) *etcd {
	return &etcd{url: url, client: &http.Client{Transport: &http.Transport{}}}
}

// kv is one revision of one key.
type kv struct {
	Key         []byte `json:"key"`
	Value       []byte `json:"value"`
	ModRevision int64  `json:"mod_revision,string"`
}

type etcdEvent struct {
	// Type is DELETE, or empty for PUT.
	Type string `json:"type"`
	KV   kv     `json:"kv"`
}

func (e *etcd) post(ctx context.Context, path string, body any) (*http.Response, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	response, err := e.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		_ = response.Body.Close()
		return nil, fmt.Errorf("etcd answered %s: %s", response.Status, text)
	}
	return response, nil
}

// revision is the newest one.
func (e *etcd) revision(ctx context.Context) (int64, error) {
	response, err := e.post(ctx, "/v3/kv/range", map[string][]byte{"key": []byte("/registry/")})
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var answer struct {
		Header struct {
			Revision int64 `json:"revision,string"`
		} `json:"header"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return 0, fmt.Errorf("read etcd's answer: %w", err)
	}
	return answer.Header.Revision, nil
}

// errCompacted: etcd no longer has the revision that was asked for, so that the ledger has a hole.
var errCompacted = errors.New("etcd has compacted away what the ledger has not seen yet")

// watch hands on every change of /registry from a revision on, in order, until ctx ends or the
// connection does. progress, with no events, is handed on as well.
func (e *etcd) watch(ctx context.Context, from int64, handle func([]etcdEvent)) error {
	response, err := e.post(ctx, "/v3/watch", map[string]any{"create_request": map[string]any{
		"key": []byte("/registry/"), "range_end": []byte("/registry0"), "start_revision": fmt.Sprint(from), "fragment": true,
	}})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answers := json.NewDecoder(response.Body)
	for {
		var answer struct {
			Result struct {
				Events          []etcdEvent `json:"events"`
				Canceled        bool        `json:"canceled"`
				CancelReason    string      `json:"cancel_reason"`
				CompactRevision int64       `json:"compact_revision,string"`
			} `json:"result"`
			Error struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := answers.Decode(&answer); err != nil {
			return fmt.Errorf("read etcd's watch: %w", err)
		}
		switch {
		case answer.Result.CompactRevision != 0:
			return errCompacted
		case answer.Result.Canceled || answer.Error.Message != "":
			return fmt.Errorf("etcd ended the watch: %s%s", answer.Result.CancelReason, answer.Error.Message)
		}
		handle(answer.Result.Events)
	}
}
