package main

import (
	"maps"
)

func init() {
	maps.Copy(goldens, map[string]golden{
		"convert":         {args: []string{"convert", "-f", "testdata/convert", "-R", "--allow-broader"}},
		"convert-broader": {args: []string{"convert", "-f", "testdata/convert", "-R"}, code: 1},
		"convert-strict": {args: []string{"convert", "-f", "testdata/convert/rules.yaml", "--strict", "--schedule", "0 3 * * *",
			"--deployment-time-annotation", "none"}, code: 1},
		"convert-clean":      {args: []string{"convert", "-f", "testdata/convert/pods.yaml", "--strict", "--service-account", "janitor"}},
		"convert-nothing":    {args: []string{"convert", "-f", "testdata/quick.yaml"}, code: 2},
		"convert-unreadable": {args: []string{"convert", "-f", "-", "--strict"}, scene: scene{stdin: "a: b: c\n"}, code: 1},
		"convert-bad-flags":  {args: []string{"convert", "--schedule", "@every 1m", "--service-account", "A"}, code: 2},
	})
}
