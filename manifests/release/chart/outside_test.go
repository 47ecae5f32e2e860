package chart

import (
	"regexp"
	"testing"
)

// TestNothingOutside: in a network of its own the manifests miss nothing. With any value, they name no
// image but Curfew's and no address. Only the descriptions of Kubernetes' own fields have links.
func TestNothingOutside(t *testing.T) {
	address, ours := regexp.MustCompile(`[a-z]+://`), regexp.MustCompile(`^(registry\.example\.com/)?curfew[:@]`)
	images := 0
	var check func(where, key string, value any)
	check = func(where, key string, value any) {
		switch value := value.(type) {
		case object:
			for key, inner := range value {
				check(where, key, inner)
			}
		case []any:
			for _, inner := range value {
				check(where, key, inner)
			}
		case string:
			if key == "image" {
				images++
				if !ours.MatchString(value) {
					t.Errorf("%s: image %s", where, value)
				}
			}
			if key != "description" && address.MatchString(value) {
				t.Errorf("%s: %s has an address: %s", where, key, value)
			}
		}
	}
	data, err := InstallYAML(version, false)
	must(t, err)
	single, err := decode(data)
	must(t, err)
	for _, o := range single {
		check("install.yaml", "", o)
	}
	for path, change := range changes {
		objects, _ := render(t, namespace, nest(path, change.value))
		for _, o := range objects {
			check(path, "", o)
		}
	}
	if want := 2 + 2*len(changes); images < want {
		t.Errorf("only %d images, want %d", images, want)
	}
}
