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
	t.Setenv("IN_TREE_TTL", "")
	t.Setenv("KUBERNETES", "1.37")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Clean(filepath.Join(here, "..", "..", "..", ".."))

	command, f, err := parse([]string{"start", "--arg", "etcd=--a=b", "--arg", "etcd=--c", "--arg", "kwok="}, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if command != "start" {
		t.Errorf("command %q, want start", command)
	}
	if f.dir != filepath.Join(root, ".cluster") || f.bin != filepath.Join(root, "bin") {
		t.Errorf("folders %s and %s, want .cluster and bin in %s", f.dir, f.bin, root)
	}
	if f.inTreeTTL {
		t.Error("the in-tree TTL controller is on")
	}
	if f.kubernetes != "1.37" {
		t.Errorf("release %q, want that of KUBERNETES", f.kubernetes)
	}
	if want := (arguments{"etcd": {"--a=b", "--c"}, "kwok": {}}); !reflect.DeepEqual(f.arguments, want) {
		t.Errorf("arguments %v, want %v", f.arguments, want)
	}

	t.Setenv("IN_TREE_TTL", "1")
	if _, f, err = parse([]string{"start", "--dir", "x"}, t.Output()); err != nil || !f.inTreeTTL || f.dir != filepath.Join(here, "x") {
		t.Errorf("flags %+v, error %v; want IN_TREE_TTL and --dir taken", f, err)
	}
	if f.set["in-tree-ttl"] {
		t.Error("the variable counts as the flag: a restart would change a setting that was not asked for")
	}
}

func TestRunRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"":                                    "name a command",
		"dance":                               `unknown command "dance": take build, start, stop, status, kill or restart`,
		"start now":                           `unexpected argument "now"`,
		"start --arg etcd":                    `invalid value "etcd" for flag -arg: "etcd": write component=--flag=value, for example kube-apiserver=--v=4`,
		"start --arg x=--y":                   `invalid value "x=--y" for flag -arg: component "x": there is none of that name, take one of [etcd kube-apiserver kube-controller-manager kube-scheduler kwok]`,
		"kill --component etcd --signal KILL": `--signal "KILL": give a number from 1 to 64`,
		"kill --component kubelet --dir " + t.TempDir(): `component "kubelet": there is none of that name, take one of [etcd kube-apiserver kube-controller-manager kube-scheduler kwok]`,
	} {
		var out, errOut bytes.Buffer
		if err := run(t.Context(), strings.Fields(line), &out, &errOut); err == nil || err.Error() != want {
			t.Errorf("%q: error %v\nwant %s", line, err, want)
		}
	}
}
