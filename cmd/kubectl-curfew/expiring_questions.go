package main

import (
	"fmt"
	"strings"
)

// seedQuestions are what people ask, each with the command line that answers it. The help shows
// them, and tests run them.
var seedQuestions = []struct{ question, line string }{
	{"What is deleted in the next 6 hours?", "expiring -A --within 6h"},
	{"Which Deployments are deleted by 5pm today?", "expiring deployments -A --before 17:00"},
	{"What is deleted in namespace foo between now and Friday 5pm?", "expiring -n foo --between now..'friday 17:00'"},
	{"What has a TTL over 7 days?", "expiring -A --ttl-longer-than 7d"},
	{"What expires in May?", "expiring -A --within may"},
	{"What would this policy delete now, if it were applied?", "expiring -A --with policy.yaml --source policy/nightly --before now"},
	{"Why does this object have this expiry, and what blocks it?", "explain job/build -n ci"},
}

func examples(of []struct{ question, line string }) string {
	var out strings.Builder
	for i, each := range of {
		if i > 0 {
			out.WriteString("\n\n")
		}
		fmt.Fprintf(&out, "  # %s\n  kubectl curfew %s", each.question, each.line)
	}
	return out.String()
}
