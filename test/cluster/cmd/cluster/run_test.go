package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Setenv("KUBERNETES", "1.37")
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Clean(filepath.Join(here, "..", "..", "..", ".."))
	command, f, err := parse([]string{"start", "--arg", "etcd=--a=b", "--arg", "etcd=--c", "--in-tree-ttl"}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	want := &flags{dir: filepath.Join(root, ".cluster"), bin: filepath.Join(cache, "curfew"), kubernetes: "1.37", inTreeTTL: true,
		arguments: arguments{"etcd": {"--a=b", "--c"}}, module: filepath.Join(root, "test", "cluster")}
	if command != "start" || !reflect.DeepEqual(f, want) {
		t.Errorf("command %q with %+v, want start with %+v", command, f, want)
	}
	if _, f, err = parse([]string{"start", "--dir", "x"}, t.Output()); err != nil || f.dir != filepath.Join(here, "x") {
		t.Errorf("flags %+v, error %v; want --dir taken", f, err)
	}
}

func TestRunRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"":                  "name a command",
		"dance":             `unknown command "dance": take build, built, start, stop, kill or restart`,
		"start now":         `unexpected argument "now"`,
		"start --arg etcd":  `invalid value "etcd" for flag -arg: "etcd": write component=--flag=value, for example kube-apiserver=--v=4`,
		"start --arg x=--y": `invalid value "x=--y" for flag -arg: component "x": there is none of that name, take one of [etcd kube-apiserver kube-controller-manager kube-scheduler kwok]`,
		"kill --component kubelet --dir " + t.TempDir(): `component "kubelet": there is none of that name, take one of [etcd kube-apiserver kube-controller-manager kube-scheduler kwok]`,
	} {
		var out, errOut bytes.Buffer
		if err := run(t.Context(), strings.Fields(line), &out, &errOut); err == nil || err.Error() != want {
			t.Errorf("%q: error %v\nwant %s", line, err, want)
		}
	}
}
