package main

const names = "policy/references"

// ofLookups have cleanup runs delete objects that are in use.
var ofLookups = []Mutant{
	{
		Invariant: "S6", Name: "a claim that a StatefulSet left when it was scaled down is unused",
		File: "policy/references/made.go",
		Old:  "!operator && kind.Kind != \"StatefulSet\" ||", New: "!operator ||",
		Package: names, Tests: []string{"TestClaimsAndClasses"},
	},
	{
		Invariant: "S6", Name: "what an operator made from the name of its object, and more before and after it, is unused",
		File: "policy/references/made.go",
		Old:  "range ends[i:]", New: "range ends[max(i, len(ends)-1):]",
		Package: names, Tests: []string{"TestNamesThatOperatorsPutTogether"},
	},
	{
		Invariant: "S6", Name: "beyond the limit of names that others are made from, a candidate is unused",
		File: "policy/references/references.go",
		Old:  "if !referenced && len(c.made) >= maxMade {", New: "if false {",
		Package: names, Tests: []string{"TestTooManyNamesThatOthersAreMadeFrom"},
	},
	{
		Invariant: "S6", Name: "a cluster-scoped object uses nothing in namespaces",
		File: "policy/references/references.go",
		Old:  "in = nil // all", New: "in = map[string]bool{\"\": true}",
		Package: names, Tests: []string{"TestWhatObjectsName"},
	},
	{
		Invariant: "S6", Name: "the default PriorityClass is unused",
		File: "policy/references/references.go",
		Old:  "isDefault && kind.Kind", New: "isDefault && false && kind.Kind",
		Package: names, Tests: []string{"TestClaimsAndClasses"},
	},
	{
		Invariant: "S6", Name: "a Service of a workload that is scaled to zero is unused",
		File: "policy/references/selectors.go",
		Old:  "one.selects || one.matches(set, pod)", New: "one.selects || pod && one.matches(set, pod)",
		Package: surveys, Tests: []string{"TestUseBeginsAtEveryRequest"},
	},
	{
		Invariant: "S6", Name: "a Service of one Pod of a StatefulSet that is scaled to zero is unused",
		File: "policy/references/selectors.go",
		Old:  "!builtIn || kind.Kind == \"StatefulSet\"", New: "!builtIn",
		Package: names, Tests: []string{"TestSelects"},
	},
	{
		Invariant: "S6", Name: "a Service that selects by a label that Pods get later is unused",
		File: "policy/references/selectors.go",
		Old:  "(pod || set.Has(requirements[i].Key())) && !", New: "!",
		Package: names, Tests: []string{"TestSelects"},
	},
	{
		Invariant: "S6", Name: "a Service with endpoints that someone wrote is unused",
		File: "policy/references/selectors.go",
		Old:  "selects || kind.Kind", New: "selects || false && kind.Kind",
		Package: names, Tests: []string{"TestSelects"},
	},
	{
		Invariant: "S6", Name: "a Service without a selector is unused",
		File: "policy/references/selectors.go",
		Old:  "case len(selector) == 0 || spec[\"type\"] == \"ExternalName\":", New: "case false:",
		Package: names, Tests: []string{"TestSelectsIsUnknown"},
	},
	{
		Invariant: "S6", Name: "an object of a kind that was not listed does not exist",
		File: "policy/references/dangling.go",
		Old:  "case !c.targets.listed[one.kind]:", New: "case false:",
		Package: names, Tests: []string{"TestDanglingIsUnknown"},
	},
	{
		Invariant: "S6", Name: "an Ingress with one backend that is missing is dangling",
		File: "policy/references/dangling.go",
		Old:  "exists = exists || found", New: "exists = found",
		Package: names, Tests: []string{"TestDangling"},
	},
	{
		Invariant: "S6", Name: "a Namespace is empty once one kind has no objects",
		File: "controller/cleanup/survey/references.go",
		Old:  "if has || err != nil {", New: "if true {",
		Package: surveys, Tests: []string{"TestNamespaceIsEmpty"},
	},
	{
		Invariant: "S6", Name: "a Namespace is empty while a kind may be missing",
		File: "controller/cleanup/survey/references.go",
		Old:  "if err := l.known(\"instances\"); err != nil {", New: "if false {\n\t\tvar err error",
		Package: surveys, Tests: []string{"TestUseIsUnknown"},
	},
	{
		Invariant: "S6", Name: "a lookup decides about a kind that is not its own",
		File: "policy/cleanup/lookups.go",
		Old:  "if decidedBy[lookup] != nil && !slices", New: "if false && !slices",
		Package: matches, Tests: []string{"TestRulesOfLookups"},
	},
	{
		Invariant: "S6", Name: "an object that only a field of a KindProfile names is unused",
		File: "policy/references/references.go",
		Old:  "\tc.scanFields(kind, object)\n", New: "",
		Package: names, Tests: []string{"TestFieldsOfProfiles"},
	},
	{
		Invariant: "S6", Name: "a lookup of the cluster drops the references of KindProfiles",
		File: "controller/cleanup/survey/references.go",
		Old:  "if len(profile.References) > 0 {", New: "if false {",
		Package: surveys, Tests: []string{"TestUseBeginsAtEveryRequest", "TestDanglingCustomObjects"},
	},
	{
		Invariant: "S6", Name: "a claim that only a field of a KindProfile names is not mounted",
		File: "controller/cleanup/survey/workloads.go",
		Old:  "if one.Kind == (schema.GroupKind{Kind: \"PersistentVolumeClaim\"}) {", New: "if false {",
		Package: surveys, Tests: []string{"TestMountedOrUnknown"},
	},
	{
		Invariant: "S6", Name: "a custom object whose reference is not a name is dangling",
		File: "policy/references/dangling.go",
		Old:  " || strings.ContainsFunc(namespace+name, endsName):", New: ":",
		Package: surveys, Tests: []string{"TestDanglingCustomObjects"},
	},
	{
		Invariant: "S6", Name: "a custom object that refers to a cluster-scoped one is dangling",
		File: "policy/references/dangling.go",
		Old:  ", {of.Kind, \"\", name}})", New: "})",
		Package: surveys, Tests: []string{"TestDanglingCustomObjects"},
	},
	{
		Invariant: "S6", Name: "a custom object with too many references is dangling",
		File: "policy/references/dangling.go",
		Old:  "if err == nil && (len(all) > maxTargets ||", New: "if err == nil && (false ||",
		Package: names, Tests: []string{"TestDanglingByProfile"},
	},
	{
		Invariant: "S6", Name: "a custom object whose KindProfile has no references is dangling or not",
		File: "policy/cleanup/lookups.go",
		Old:  "byProfile(lookup, o.Resource) && len(o.Facts.Profile.References) > 0", New: "byProfile(lookup, o.Resource)",
		Package: surveys, Tests: []string{"TestDanglingCustomObjects"},
	},
}
