package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/v1alpha1"
)

// korException is an object that kor never reports.
type korException struct {
	Namespace    string `json:"Namespace"`
	ResourceName string `json:"ResourceName"`
	MatchRegex   bool   `json:"MatchRegex"`
}

// korPlurals are the names in kor's lists that are no plurals.
var korPlurals = map[string]string{"crds": "customresourcedefinitions", "pdbs": "poddisruptionbudgets"}

// maxTerm is about how long the condition of some exceptions gets.
const maxTerm = 2000

// korLists returns the lists of a document, such as exceptionConfigMaps; none if it has no such
// list.
func korLists(text []byte) (out map[string]rawJSON) {
	var all map[string]rawJSON
	if json.Unmarshal(text, &all) != nil {
		return nil
	}
	maps.DeleteFunc(all, func(key string, _ rawJSON) bool { return !strings.HasPrefix(key, "exception") })
	return all
}

// convertKor reads kor's lists of exceptions: each becomes a policy for objects that nothing uses,
// without the exceptions of all files.
func convertKor(c *converter, lists map[string]rawJSON) {
	known := c.options.known
	for _, key := range slices.Sorted(maps.Keys(lists)) {
		if c.gathering {
			known.kor[key] = append(known.kor[key], lists[key])
		} else if all := known.kor[key]; all != nil {
			delete(known.kor, key)
			convertKorList(c, key, all)
		}
	}
}

func convertKorList(c *converter, key string, lists []rawJSON) {
	plural := strings.ToLower(strings.TrimPrefix(key, "exception"))
	if name, ok := korPlurals[plural]; ok {
		plural = name
	}
	d := c.draft("kor's "+key, &metav1.ObjectMeta{}, false)
	d.name, d.source = "unused-"+plural, "kor's "+key
	known := builtinBy(func(b *builtin) bool { return b.plural == plural })
	if known == nil {
		d.lost(key, "%q is not a kind that kor knows", plural)
		d.report()
		return
	}
	var all []korException
	for _, list := range lists {
		var some []korException
		unknown, err := decode(list, &some)
		if err != nil {
			d.lost(key, "cannot be read, so there is no policy: %v", err)
			d.report()
			return
		}
		d.unknown(unknown)
		all = append(all, some...)
	}
	d.schedule(d.options.Schedule)
	d.spec.DryRun = true
	d.note("spec.dryRun", "kor reports: compare its report with this policy's, then remove dryRun")
	d.spec.MatchConstraints = v1alpha1.CleanupMatch{
		ResourceRules: []v1alpha1.ResourceRule{{APIGroups: []string{known.group}, Resources: []string{plural}}},
		ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "kor/used", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}}}},
	}
	if slices.Contains([]string{"configmaps", "secrets", "serviceaccounts"}, plural) {
		d.condition("unused", "!lookup.referenced")
	} else {
		d.never("unused", key, "no lookup of Curfew finds unused %s: write a condition instead of false", plural)
	}
	if plural == "secrets" {
		d.condition("type", `!(object.?type.orValue("") in ["helm.sh/release.v1", "kubernetes.io/dockerconfigjson", `+
			`"kubernetes.io/dockercfg", "kubernetes.io/service-account-token"])`)
	}
	korExceptions(d, key, all)
	d.finish()
}

// korExceptions keeps the exceptions. Like kor's, the expressions match any part of a text.
func korExceptions(d *draft, key string, all []korException) {
	const namespace = `object.metadata.?namespace.orValue("")`
	var terms []string
	length := 0
	flush := func() {
		if len(terms) > 0 {
			d.condition("exceptions", "!("+strings.Join(terms, " || ")+")")
		}
		terms, length = nil, 0
	}
	for i, one := range all {
		term := fmt.Sprintf("%s == %q && object.metadata.name == %q", namespace, one.Namespace, one.ResourceName)
		if one.MatchRegex {
			for _, pattern := range []string{one.Namespace, one.ResourceName} {
				if _, err := regexp.Compile(pattern); err != nil {
					d.never("exceptions", fmt.Sprintf("%s[%d]", key, i), "%q: %v", pattern, err)
				}
			}
			term = fmt.Sprintf("%s.matches(%q) && object.metadata.name.matches(%q)", namespace, one.Namespace, one.ResourceName)
		}
		if length > 0 && length+len(term) > maxTerm {
			flush()
		}
		terms, length = append(terms, term), length+len(term)
	}
	flush()
}
