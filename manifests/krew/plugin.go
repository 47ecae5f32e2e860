package main

// plugin is krew's manifest of a plugin, as far as this one needs it. Source: krew's developer
// guide, "Writing a plugin manifest".
type plugin struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   metadata   `json:"metadata"`
	Spec       pluginSpec `json:"spec"`
}

type metadata struct {
	Name string `json:"name"`
}

type pluginSpec struct {
	Version          string     `json:"version"`
	Homepage         string     `json:"homepage,omitempty"`
	ShortDescription string     `json:"shortDescription"`
	Description      string     `json:"description"`
	Caveats          string     `json:"caveats"`
	Platforms        []platform `json:"platforms"`
}

type platform struct {
	Selector selector `json:"selector"`
	URI      string   `json:"uri"`
	SHA256   string   `json:"sha256"`
	Bin      string   `json:"bin"`
}

type selector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

func newPlugin(version, homepage string) *plugin {
	return &plugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: metadata{Name: "curfew"},
		Spec: pluginSpec{
			Version: version, Homepage: homepage,
			ShortDescription: "Show what will be deleted, when, and why",
			Description: `Curfew deletes finished Jobs, Pods and other objects when their time has come. This plugin answers, from the API server alone and
with your own permissions: what is deleted in the next hours, why an object expires when it does, and what blocks it. It lets objects
live longer, go at once, or stay, and checks manifests without a cluster.
`,
			Caveats: `To have kubectl complete "kubectl curfew", put into a folder of your PATH what this prints, and make it executable:
  kubectl curfew completion kubectl > kubectl_complete-curfew
`,
		},
	}
}

func (p *plugin) add(goos, goarch, uri, sum, bin string) {
	p.Spec.Platforms = append(p.Spec.Platforms, platform{
		Selector: selector{MatchLabels: map[string]string{"os": goos, "arch": goarch}}, URI: uri, SHA256: sum, Bin: bin,
	})
}
