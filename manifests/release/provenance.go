package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// object is a JSON object.
type object = map[string]any

// provenanceFile says from what the files of a release were made.
const provenanceFile = "provenance.json"

// provenance writes an in-toto statement with the SLSA provenance of all files and of the image.
// Sources: in-toto's Statement v1, and SLSA's Provenance v1. It has no time of the build: the same
// source makes the same statement.
func (r *release) provenance() ([]string, error) {
	sums, err := r.sums(sumsFile, provenanceFile)
	if err != nil {
		return nil, err
	}
	var subjects []object
	for _, sum := range sums {
		subjects = append(subjects, object{"name": sum.name, "digest": object{"sha256": sum.digest}})
	}
	if hex, ok := strings.CutPrefix(r.digest, "sha256:"); ok {
		subjects = append(subjects, object{"name": r.repository + ":" + r.version, "digest": object{"sha256": hex}})
	}
	materials := []object{{"uri": "pkg:generic/go@" + strings.TrimPrefix(runtime.Version(), "go")}}
	if r.revision != "" && !strings.HasSuffix(r.revision, dirtySuffix) {
		materials = append(materials, object{"name": "curfew", "digest": object{"gitCommit": r.revision}})
	}
	data, err := json.MarshalIndent(object{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType": "https://curfew.dev/make-release/v1",
				"externalParameters": object{"version": r.version, "repository": r.repository, "platforms": r.platforms,
					"runbooks": r.runbooks, "commit": r.revision},
				"resolvedDependencies": materials,
			},
			"runDetails": object{"builder": object{"id": r.builder}},
		},
	}, "", "  ")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(r.out, provenanceFile)
	return []string{path}, os.WriteFile(path, append(data, '\n'), 0o644)
}
