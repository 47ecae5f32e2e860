package local

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFreePorts(t *testing.T) {
	ports, err := freePorts(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range ports {
		if port < 1 || seen[port] {
			t.Fatalf("port %d twice or out of range in %v", port, ports)
		}
		seen[port] = true
	}
	listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", ports[0]))
	if err != nil {
		t.Fatalf("a port that was said to be free is not: %v", err)
	}
	listener.Close()
}

// fakeBinaries are shell scripts in place of the components.
func fakeBinaries(t *testing.T, script string) Binaries {
	t.Helper()
	dir := t.TempDir()
	for _, name := range ComponentNames() {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return Binaries{ControlPlane: dir, KwokDir: dir}
}

// A component that ends at once makes Start fail with what it said, and nothing but the logs stays.
func TestStartFails(t *testing.T) {
	dir := t.TempDir()
	cluster := &Cluster{Dir: dir, Out: t.Output()}
	_, err := cluster.Start(t.Context(), fakeBinaries(t, "echo no disk today; exit 3"), Options{})
	if err == nil || !strings.Contains(err.Error(), "etcd ended: exit status 3") || !strings.Contains(err.Error(), "no disk today") {
		t.Fatalf("error %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() != "logs" && entry.Name() != ".lock" {
			t.Errorf("%s is left behind", entry.Name())
		}
	}
}

func TestStartTriesOtherPorts(t *testing.T) {
	count := filepath.Join(t.TempDir(), "count")
	bin := fakeBinaries(t, "echo x >> "+count+"; echo listen tcp 127.0.0.1:1: bind: address already in use; exit 1")
	cluster := &Cluster{Dir: t.TempDir(), Out: t.Output()}
	if _, err := cluster.Start(t.Context(), bin, Options{}); err == nil {
		t.Fatal("no error")
	}
	attempts, err := os.ReadFile(count)
	if err != nil {
		t.Fatal(err)
	}
	if got := bytes.Count(attempts, []byte("x")); got != portAttempts {
		t.Errorf("%d attempts, want %d", got, portAttempts)
	}
}

// A start begins from nothing, also if an earlier cluster left data: the processes are gone, the
// data too, files of others stay.
func TestStaleState(t *testing.T) {
	for name, content := range map[string]string{
		"cut short":     `{"dir": "DIR", "ready": false, "components": {"etcd": {"pid": 1}}}`,
		"half written":  `{"dir": "DIR", "rea`,
		"all are dead":  `{"dir": "DIR", "ready": true, "components": {"etcd": {"pid": PID}}}`,
		"no state file": "",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			// The pid in the file is that of a living stranger: this test.
			content = strings.NewReplacer("DIR", dir, "PID", fmt.Sprint(os.Getpid())).Replace(content)
			if content != "" {
				if err := os.WriteFile(filepath.Join(dir, stateFile), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, sub := range []string{"data/etcd", "pki", "other"} {
				if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if name != "all are dead" {
				sleeper(t, false, dirMark+"="+dir, componentMark+"=etcd")
			}
			cluster := &Cluster{Dir: dir, Out: t.Output()}
			bin := fakeBinaries(t, "test -e "+filepath.Join(dir, "data", "etcd")+" && echo data is there; exit 3")
			_, err := cluster.Start(t.Context(), bin, Options{})
			if err == nil || !strings.Contains(err.Error(), "exit status 3") || strings.Contains(err.Error(), "data is there") {
				t.Errorf("error %v", err)
			}
			found, err := findProcesses(dir)
			if err != nil || len(found) > 0 {
				t.Errorf("still running: %+v %v", found, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "other")); err != nil {
				t.Errorf("a file of another program is gone: %v", err)
			}
		})
	}
}

func TestOtherOptions(t *testing.T) {
	dir := t.TempDir()
	state := &State{Dir: dir, Ready: true}
	if err := state.save(); err != nil {
		t.Fatal(err)
	}
	sleeper(t, false, dirMark+"="+dir, componentMark+"=etcd")
	cluster := &Cluster{Dir: dir, Out: t.Output()}
	_, err := cluster.Start(t.Context(), Binaries{}, Options{InTreeTTL: true})
	want := `the cluster in ` + dir + ` runs with the options {"inTreeTTL":false}, asked for was {"inTreeTTL":true}: stop it first`
	if err == nil || err.Error() != want {
		t.Errorf("error %v\nwant  %s", err, want)
	}
}

func TestStopNothing(t *testing.T) {
	var out bytes.Buffer
	cluster := &Cluster{Dir: filepath.Join(t.TempDir(), "new"), Out: &out}
	for range 2 {
		if err := cluster.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(out.String(), "no cluster runs in") {
		t.Errorf("said %q", out.String())
	}
	if err := cluster.Kill("etcd"); err == nil || !strings.HasPrefix(err.Error(), "etcd does not run in ") {
		t.Errorf("kill: %v", err)
	}
	if err := cluster.Restart(context.Background(), Binaries{}, "kubelet", ""); err == nil ||
		err.Error() != `component "kubelet": there is none of that name, take one of [etcd kube-apiserver kube-controller-manager kube-scheduler kwok]` {
		t.Errorf("restart: %v", err)
	}
}

func TestNodeReady(t *testing.T) {
	for document, want := range map[string]string{
		`{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`:                                 "",
		`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`:                                "the Node node-0 is not ready",
		`{"spec":{"taints":[{"key":"k"}]},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`: "the Node node-0 has the taint k",
	} {
		got := ""
		if err := nodeReady([]byte(document)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", document, got, want)
		}
	}
}
