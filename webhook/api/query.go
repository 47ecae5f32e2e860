package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// query holds the parameters of a request.
type query struct {
	// namespace of documents that name none; empty means the default one.
	namespace string
	// offline means that the answer depends on the documents alone.
	offline bool
}

type queryKey struct{}

func queryOf(r *http.Request) query {
	query, _ := r.Context().Value(queryKey{}).(query)
	return query
}

// queried refuses parameters that cannot be used. Unknown ones are refused as well: a misspelt one
// would change the answer unseen.
func queried(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, problems := parseQuery(r.URL.RawQuery)
		if len(problems) > 0 {
			WriteProblem(w, r, http.StatusBadRequest, "the query cannot be used", problems...)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), queryKey{}, query)))
	})
}

func parseQuery(raw string) (query, []string) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return query{}, []string{"not readable as a query: " + err.Error()}
	}
	var out query
	var problems []string
	for name, all := range values {
		value := all[0]
		switch {
		case len(all) > 1:
			problems = append(problems, fmt.Sprintf("%s is there %d times: give it once", name, len(all)))
		case name == "namespace":
			if bad := validation.IsDNS1123Label(value); len(bad) > 0 {
				problems = append(problems, fmt.Sprintf("namespace=%q: %s", value, strings.Join(bad, "; ")))
			}
			out.namespace = value
		case name == "offline" && (value == "true" || value == "false"):
			out.offline = value == "true"
		case name == "offline":
			problems = append(problems, fmt.Sprintf("offline=%q: give true or false", value))
		default:
			problems = append(problems, fmt.Sprintf("%q is no parameter: use namespace or offline", name))
		}
	}
	slices.Sort(problems)
	return out, problems
}
