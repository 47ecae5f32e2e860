package main

import (
	"fmt"
	"io"
	"strings"

	"curfew.dev/curfew/cmd/kubectl-curfew/uninstall"
	"curfew.dev/curfew/policy"
)

// warn says before a removal what is lost, what is released, and what may come back.
func (o *uninstallOptions) warn(found *uninstall.Installation, diagnostics io.Writer) {
	if len(found.Losses) > 0 {
		if o.keepCRDs {
			fmt.Fprintln(diagnostics, "These are kept. They have no effect until Curfew is installed again:")
		} else {
			fmt.Fprintln(diagnostics, "These are deleted with the CRDs, which cannot be undone. Save them with kubectl get -A -o yaml, or pass --keep-crds:")
		}
		for _, loss := range found.Losses {
			fmt.Fprintf(diagnostics, "  %s\n", loss)
		}
	}
	var notes []string
	if n := len(found.Releases); n > 0 {
		notes = append(notes, fmt.Sprintf("finalizer %s is removed from %s; those that have not finished are not counted any more", policy.FinalizerTally, count(n, "Pod")))
	}
	if len(found.GitOps) > 0 {
		notes = append(notes, strings.Join(found.GitOps, " and ")+" manages these objects and may create them again: remove Curfew there first")
	}
	if len(found.Others) > 0 {
		notes = append(notes, fmt.Sprintf("namespace %s is kept, since it holds what is not part of Curfew: %s", found.Namespace, shortList(found.Others)))
	} else if found.Unlabelled {
		notes = append(notes, fmt.Sprintf("namespace %s is kept, since Curfew's manifests did not create it; nothing else is in it: kubectl delete namespace %[1]s", found.Namespace))
	}
	printNotes(notes, diagnostics)
}

// conclude says after a removal whether anything is left that blocks, and what remains without an
// effect.
func (o *uninstallOptions) conclude(found *uninstall.Installation, left []string, diagnostics io.Writer) error {
	if len(left) > 0 {
		fmt.Fprintf(diagnostics, "\nThis is left and may block requests or deletions: %s. Run the command again.\n", shortList(left))
		return errBadNews
	}
	gone := "no webhook configuration, no finalizer on a Pod, no CRD"
	if o.keepCRDs {
		gone = "no webhook configuration, no finalizer on a Pod; the CRDs are kept"
	}
	fmt.Fprintf(diagnostics, "\nCurfew is removed, and nothing of it blocks anything: %s.\n", gone)
	notes := []string{
		"annotations and labels that begin with " + policy.Prefix + " remain, and have no effect: " + keysOfCurfew,
		"Kubernetes still acts on ttlSecondsAfterFinished, also where Curfew filled it in",
	}
	if len(found.Remains) > 0 {
		notes = append(notes, "made for Curfew, but not by its manifests, and without effect: "+shortList(found.Remains))
	}
	if found.Helm != nil {
		notes = append(notes, fmt.Sprintf("Helm still lists the release, of which nothing is left: helm uninstall %s -n %s", found.Helm.Name, found.Helm.Namespace))
	}
	printNotes(notes, diagnostics)
	return nil
}

// keysOfCurfew are the keys that Curfew itself wrote.
var keysOfCurfew = "those of people, and Curfew's own in-use, pods-in-use and default-since on namespaces, and " +
	"ttl-source, deadline-source, ttl-label-source, finished-at and counted-by on objects"

// shortList names the first few.
func shortList(names []string) string {
	const most = 5
	if more := len(names) - most; more > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}
