// Package charttest renders the chart for tests, with Helm's own engine.
package charttest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

// Load reads the files of a chart as Helm does.
func Load(files map[string][]byte) (*chart.Chart, error) {
	var buffered []*archive.BufferedFile
	for _, name := range slices.Sorted(maps.Keys(files)) {
		buffered = append(buffered, &archive.BufferedFile{Name: name, Data: files[name]})
	}
	out, err := loader.LoadFiles(buffered)
	if err != nil {
		return nil, fmt.Errorf("load the chart: %w", err)
	}
	return out, nil
}

// Render does what `helm template` does with the files of a chart: it checks the values against the
// schema. The notes are apart from the manifests, which it returns as YAML documents.
func Render(files map[string][]byte, namespace string, values map[string]any) (manifests, notes string, err error) {
	chart, err := Load(files)
	if err != nil {
		return "", "", err
	}
	options := common.ReleaseOptions{Name: "curfew", Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, values, options, common.DefaultCapabilities)
	if err != nil {
		return "", "", fmt.Errorf("values: %w", err)
	}
	rendered, err := engine.Render(chart, all)
	if err != nil {
		return "", "", fmt.Errorf("render the chart: %w", err)
	}
	var out strings.Builder
	for _, path := range slices.Sorted(maps.Keys(rendered)) {
		if strings.HasSuffix(path, "NOTES.txt") {
			notes = rendered[path]
			continue
		}
		out.WriteString("---\n" + rendered[path] + "\n")
	}
	return out.String(), notes, nil
}
