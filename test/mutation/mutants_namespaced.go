package main

// ofListedNamespaces break what keeps Curfew inside listed namespaces, and what it is judged by
// there.
var ofListedNamespaces = []Mutant{
	{
		Invariant: "S1", Name: "an object outside of the listed namespaces is deleted",
		File: "controller/confine/transport.go",
		Old:  "\tcase listed:\n", New: "\tcase listed || true:\n",
		Package: "controller/confine", Tests: []string{"TestTransport"},
	},
	{
		Invariant: "S1", Name: "a feed of a listed namespace watches all",
		File: "controller/feedset/spec.go",
		Old:  "one.Namespace = namespace", New: "_ = namespace",
		Package: feedsets, Tests: []string{"TestIn", "TestPodsOfListedNamespaces"},
	},
	{
		Invariant: "S1", Name: "a permission in all namespaces counts beside the listed ones",
		File: "controller/permission/permission.go",
		Old:  "if !only {", New: "if true {",
		Package: "controller/permission", Tests: []string{"TestAskInListedNamespacesOnly"},
	},
	{
		Invariant: "S6", Name: "a policy file with an error counts as no policy",
		File: "controller/follow/files.go",
		Old:  "\tall, version, err := s.Read(ctx)\n\tif err != nil {\n\t\treturn nil, err\n\t}\n", New: "\tall, version, _ := s.Read(ctx)\n",
		Package: follows, Tests: []string{"TestFilesThatCannotBeRead"},
	},
	{
		Invariant: "S6", Name: "an unreadable policy file counts as no policy",
		File: "controller/follow/files.go",
		Old:  "\t\t\terrs = append(errs, err)\n\t\t\tcontinue\n", New: "\t\t\tcontinue\n",
		Package: follows, Tests: []string{"TestFileThatCannotBeOpened"},
	},
	{
		Invariant: "S6", Name: "a listed namespace that is no longer readable stays known",
		File: "controller/follow/namespaces.go",
		Old:  " || apierrors.IsForbidden(err)", New: "",
		Package: follows, Tests: []string{"TestPolledNamespaces"},
	},
	{
		Invariant: "S6", Name: "the list of a namespace forgets the Jobs of others",
		File: "controller/follow/jobs.go",
		Old:  "(j.namespace == \"\" || one.namespace == j.namespace)", New: "true",
		Package: follows, Tests: []string{"TestJobsOfListedNamespaces"},
	},
	{
		Invariant: "S8", Name: "the webhook of listed namespaces reviews requests about others",
		File: "webhook/webhooks.go",
		Old:  "len(w.settings.Only) == 0 ||", New: "len(w.settings.Only) >= 0 ||",
		Package: admits, Tests: []string{"TestOnlyNamespaces"},
	},
	{
		Invariant: "S8", Name: "the webhook of listed namespaces reviews all Namespaces",
		File: "webhook/webhooks.go",
		Old:  "\t\tnamespace = review.Name\n", New: "\t\treturn true\n",
		Package: admits, Tests: []string{"TestOnlyNamespaces"},
	},
	{
		Invariant: "S6", Name: "admission in listed namespaces fills in the defaults of the last poll",
		File: "controller/follow/namespaces.go",
		Old:  "return f.LiveNamespace(ctx, name) })", New: "return f.Namespaces.Namespace(ctx, name) })",
		Package: follows, Tests: []string{"TestFreshNamespaces"},
	},
	{
		Invariant: "S10", Name: "what a LocalSubjectAccessReview cannot ask about is permitted",
		File: "webhook/access.go",
		Old:  "\t\treturn false, unanswerable(spec, errNoNamespace)\n", New: "\t\treturn true, nil\n",
		Package: admits, Tests: []string{"TestLocalSubjectAccessReviews"},
	},
}
