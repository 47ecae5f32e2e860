package e2e

import (
	"context"
	"os"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/wellknown"
)

const (
	labelField = "metadata.labels[curfew.dev/ttl]: "
	notALabel  = " is neither a duration nor a date: use one of them (90s, 1h30m, 7d; 2026-12-24, 2026-12-24T003000Z)"
)

// labelledAs is an object of any kind with labels, as JSON-like maps.
func labelledAs(apiVersion, kind, name string, labels ...string) map[string]any {
	fields := map[string]any{}
	for key, value := range pairs(labels) {
		fields[key] = value
	}
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "labels": fields}}
}

// A label is reviewed on whatever kind it stands, built in or custom, namespaced or not: when it
// comes and when it changes.
func TestLabelsOfAnyKindAreReviewed(t *testing.T) {
	parallel(t)
	s := labelSpace(t, wellknown.AnnotationMaxTTL, "90d")
	thing := s.define("Thing", s.name+".example.com", true, version{name: "v1", storage: true})
	site := s.define("Site", s.name+".example.com", false, version{name: "v1", storage: true})
	s.grant("e2e-"+s.name, thing, site)
	name := ` of namespace "` + s.name + `": use 90d or less`
	const bound = "91d is above curfew.dev/max-ttl 90d"
	for _, kind := range []struct{ apiVersion, kind, resource string }{
		{"v1", "ConfigMap", "configmap"}, {thing.Group + "/v1", "Thing", thing.Resource + "." + thing.Group},
	} {
		object := func(name, ttl string) map[string]any {
			return labelledAs(kind.apiVersion, kind.kind, name, wellknown.LabelTTL, ttl)
		}
		s.eventually(row{object("good", "90d"), ""}) // once it is known that the controller may delete the kind
		s.creates(
			row{object("good", "90d"), ""},
			row{object("bad", "soon"), warned(labelField + `"soon"` + notALabel)},
			row{object("past", "2020-12-24"), denied("validate-labels-in-use.curfew.dev", labelField+restoredDate+kind.kind+" was created: use a later one")},
			row{object("long", "91d"), denied("validate-labels-in-use.curfew.dev", labelField+bound+name)},
			row{labelledAs(kind.apiVersion, kind.kind, "none"), ""},
		)
		refused := `Error from server (Forbidden): admission webhook "validate-labels-in-use.curfew.dev" denied the request: ` + labelField + bound + name
		s.expectRefusal(s.kubectl("label", kind.resource, "none", wellknown.LabelTTL+"=91d"), refused)
		s.expectRefusal(s.kubectl("label", "--overwrite", kind.resource, "good", wellknown.LabelTTL+"=91d"), refused)
		s.expectStderr(s.kubectl("label", "--overwrite", kind.resource, "good", wellknown.LabelTTL+"=30d"))
		s.expectStderr(s.kubectl("label", kind.resource, "good", "team=blue"))
		s.expectStderr(s.kubectl("label", kind.resource, "good", wellknown.LabelTTL+"-"))
	}
	cluster := func(ttl string) map[string]any {
		return labelledAs(site.Group+"/v1", "Site", s.name, wellknown.LabelTTL, ttl)
	}
	s.eventually(row{cluster("91d"), ""})
	s.wouldCreate(row{cluster("1s"), warned(labelField + "1s is under 60s: the Site is deleted 1s after its creation; use 60s or more")})
}

// kubectl curfew explain says who deleted a cluster-scoped object, by an Event in namespace default.
func TestWhoDeletedAClusterScopedObject(t *testing.T) {
	parallel(t)
	s := labelSpace(t)
	site := s.define("Site", s.name+".example.com", false, version{name: "v1", storage: true})
	s.grant("e2e-"+s.name, site)
	s.awaitWatched("Site."+site.Group, true)
	s.create(labelledAs(site.Group+"/v1", "Site", s.name, wellknown.LabelTTL, "1s"))
	s.poll("the record of the deletion", func(context.Context) (bool, error) {
		return strings.Contains(s.curfew("explain", site.Resource+"."+site.Group+"/"+s.name).stdout, "by its TTL label"), nil
	})
}

// The samples of policies: 90 days at most, and not after the end of the year.
func TestLabelPolicySamples(t *testing.T) {
	parallel(t)
	s := labelSpace(t)
	text, err := os.ReadFile("../../manifests/samples/8-labels.yaml")
	s.ok(err)
	// As it stands, but for this namespace alone: the other tests have labels as well. A date that
	// never comes to be over.
	sample := strings.NewReplacer("    objectSelector:\n", "    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: "+s.name+"}}\n    objectSelector:\n",
		"labels-90-days", s.name+"-90-days", "labels-this-year", s.name+"-this-year", "2026-12-31", "2098-12-31").Replace(string(text))
	s.apply(sample)
	s.Cleanup(func() {
		s.afterwards("delete", "lifecyclepolicy", s.name+"-90-days", s.name+"-this-year", "--ignore-not-found")
	})
	long := denied("validate-labels.curfew.dev", labelField+`91d is above maxTTLLabel 90d of policy "`+s.name+`-90-days": use 90d or less`)
	s.eventually(row{labelledAs("v1", "ConfigMap", "long", wellknown.LabelTTL, "91d"), long})
	date := labelledAs("v1", "ConfigMap", "date", wellknown.LabelTTL, "2098-12-31", "project", "twenty-six")
	s.eventuallySays("the date to be too late", ` is above maxTTLLabel 90d of policy "`+s.name+`-90-days": use `, date)
	s.creates(row{labelledAs("v1", "ConfigMap", "fits", wellknown.LabelTTL, "90d", "project", "twenty-six"), ""})

	s.expectSuccess(s.kubectl("delete", "lifecyclepolicy", s.name+"-90-days"))
	s.eventually(row{date, ""})
	s.creates(
		row{date, ""},
		row{labelledAs("v1", "ConfigMap", "after", wellknown.LabelTTL, "2099-01-01", "project", "twenty-six"), denied("validate-labels.curfew.dev",
			labelField+`2099-01-01 is after latestDate 2098-12-31 of policy "`+s.name+`-this-year": use a date up to then`)},
		row{labelledAs("v1", "ConfigMap", "other", wellknown.LabelTTL, "2099-01-01"), ""},
	)
}

// A label is a delete permission in disguise, on any kind, and needs one of the controller's.
func TestLabelOfThoseWhoMayNotDelete(t *testing.T) {
	parallel(t)
	s, resource := custom(t)
	thing := func(name string) map[string]any {
		return labelledAs(resource.Group+"/v1", "Thing", name, wellknown.LabelTTL, "1d")
	}
	name := "things." + resource.Group
	controller := labelField + `Curfew's controller lacks the permission to delete a Thing in namespace "` + s.name + `": it stays until an admin grants that`
	s.eventually(row{thing("a"), warned(controller)})

	s.expectSuccess(s.kubectl("create", "role", "ann", "--verb=create,get,patch", "--resource="+name))
	s.expectSuccess(s.kubectl("create", "rolebinding", "ann", "--role=ann", "--user=ann"))
	s.expectStderr(s.kubectlInput(s.manifest(thing("b")), "--as=ann", "create", "-f", "-"),
		warned(labelField+"sets when this Thing is deleted"+notYours+" on "+name+` in namespace "`+s.name+`"`), warned(controller))
	s.grant("e2e-"+s.name, resource)
	s.eventually(row{thing("c"), ""})
}
