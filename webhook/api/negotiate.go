package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/munnerz/goautoneg"
	"k8s.io/apimachinery/pkg/util/validation"
)

// format is how manifests and answers are written.
type format uint8

const (
	formatJSON format = iota
	formatYAML
)

// mediaTypes are the supported types. The first one is the default for answers.
var mediaTypes = []string{"application/json", "application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"}

// formats of a request and its answer.
type formats struct{ in, out format }

type formatsKey struct{}

func formatsOf(r *http.Request) formats {
	formats, _ := r.Context().Value(formatsKey{}).(formats)
	return formats
}

// negotiated finds the formats of the body and of the answer.
func negotiated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var formats formats
		var err error
		if formats.in, err = contentFormat(r.Header); err != nil {
			w.Header().Set("Accept-Post", strings.Join(mediaTypes, ", "))
			WriteProblem(w, r, http.StatusUnsupportedMediaType, err.Error())
			return
		}
		if formats.out, err = answerFormat(r.Header); err != nil {
			WriteProblem(w, r, http.StatusNotAcceptable, err.Error())
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), formatsKey{}, formats)))
	})
}

// contentFormat of the body; without a Content-Type it is YAML, which includes JSON.
func contentFormat(header http.Header) (format, error) {
	if coding := header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return 0, fmt.Errorf("Content-Encoding %q is not understood: send the body as it is", coding)
	}
	text := header.Get("Content-Type")
	if text == "" {
		return formatYAML, nil
	}
	mediaType, params, err := mime.ParseMediaType(text)
	if err != nil {
		return 0, fmt.Errorf("Content-Type %q is not readable: send application/yaml or application/json", text)
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return 0, fmt.Errorf("charset %q is not understood: send UTF-8", charset)
	}
	return formatOf(mediaType, "Content-Type", text)
}

func answerFormat(header http.Header) (format, error) {
	text := strings.Join(header.Values("Accept"), ",")
	if text == "" {
		return formatJSON, nil
	}
	return formatOf(goautoneg.Negotiate(text, mediaTypes), "Accept", text)
}

func formatOf(mediaType, name, text string) (format, error) {
	for i, known := range mediaTypes {
		if mediaType != known {
			continue
		}
		if i == 0 {
			return formatJSON, nil
		}
		return formatYAML, nil
	}
	return 0, fmt.Errorf("%s %q is not understood: use application/yaml or application/json", name, text)
}

// readBody reads all of a body, or answers why it cannot.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxManifestBytes))
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		WriteProblem(w, r, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is too long: send %d bytes or less", tooLong.Limit))
		return nil, false
	}
	if err != nil {
		WriteProblem(w, r, http.StatusBadRequest, "the body could not be read to its end: send it again")
		return nil, false
	}
	return body, true
}

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
