package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"curfew.dev/curfew/test/harness"
)

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

// newestRevision is that of etcd.
func newestRevision(ctx context.Context, cluster *harness.Cluster) (int64, error) {
	var answer struct {
		Header struct {
			Revision int64 `json:"revision,string"`
		} `json:"header"`
	}
	err := cluster.AskEtcd(ctx, "range", map[string][]byte{"key": []byte("/registry/")}, &answer)
	return answer.Header.Revision, err
}

// errCompacted: etcd no longer has the revision that was asked for, so that the ledger has a hole.
var errCompacted = errors.New("etcd has compacted away what the ledger has not seen yet")

// watchEtcd hands on every change of /registry from a revision on, in order, until ctx ends or the
// connection does.
func watchEtcd(ctx context.Context, url string, from int64, handle func([]etcdEvent)) error {
	const all = `"key": "L3JlZ2lzdHJ5Lw==", "range_end": "L3JlZ2lzdHJ5MA=="` // from /registry/ to /registry0
	create := fmt.Sprintf(`{"create_request": {%s, "start_revision": "%d", "fragment": true}}`, all, from)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v3/watch", strings.NewReader(create))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
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
