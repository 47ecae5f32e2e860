package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Results are named after their row, and the goal is printed beside the ratio to the bare loop's.
func TestLatenessRows(t *testing.T) {
	var out bytes.Buffer
	row := latenessRow{name: "lateness_outage", goal: 4}
	got := row.results(&out, []result{{Name: "lateness.p50_ms", Ratio: 9}, {Name: "lateness.p99_ms.vs_limit", Ratio: 4.2}})
	if got[0].Name != "lateness_outage.p50_ms" || got[1].Name != "lateness_outage.p99_ms.vs_limit" {
		t.Errorf("named %s and %s", got[0].Name, got[1].Name)
	}
	if want := "lateness_outage.p99_ms.vs_limit: 4.20 times the bare loop's, goal at most 4: missed\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

// While the relay is cut off it answers nothing, and what was open is closed.
func TestRelay(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	defer server.Close()
	r, err := startRelay(t.Context(), server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	get := func() error {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Get("http://" + r.listener.Addr().String())
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	if err := get(); err != nil {
		t.Errorf("before: %v", err)
	}
	open, err := net.Dial("tcp", r.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(open, "GET / HTTP/1.1\r\nHost: a\r\n"); err != nil {
		t.Fatal(err)
	}
	for kept := 0; kept < 2; { // It has been accepted.
		r.mu.Lock()
		kept = len(r.open)
		r.mu.Unlock()
	}
	r.cut(true)
	if _, err := open.Read(make([]byte, 1)); err == nil {
		t.Error("an open connection goes on")
	}
	if err := get(); err == nil {
		t.Error("answered while the API server is away")
	}
	r.cut(false)
	if err := get(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
