package api

import (
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

// The formats of manifests and answers.
const (
	jsonType = "application/json"
	yamlType = "application/yaml"
)

// mediaTypes are the supported types. The first one is the default for answers.
var mediaTypes = []string{jsonType, yamlType, "application/x-yaml", "text/yaml", "text/x-yaml"}

// negotiated returns the formats of the body and of the answer.
func negotiated(w http.ResponseWriter, header http.Header) (request, out string, _ *Problem) {
	request, err := contentFormat(header)
	if err != nil {
		w.Header().Set("Accept-Post", strings.Join(mediaTypes, ", "))
		return "", "", problem(http.StatusUnsupportedMediaType, err.Error())
	}
	out = jsonType
	if accept := strings.Join(header.Values("Accept"), ","); accept != "" {
		if out, err = formatOf(goautoneg.Negotiate(accept, mediaTypes), "Accept", accept); err != nil {
			return "", "", problem(http.StatusNotAcceptable, err.Error())
		}
	}
	return request, out, nil
}

// contentFormat of the body; without a Content-Type it is YAML, which includes JSON.
func contentFormat(header http.Header) (string, error) {
	if coding := header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return "", fmt.Errorf("Content-Encoding %q is not understood: send the body as it is", coding)
	}
	text := header.Get("Content-Type")
	if text == "" {
		return yamlType, nil
	}
	mediaType, params, err := mime.ParseMediaType(text)
	if err != nil {
		return "", fmt.Errorf("Content-Type %q is not readable: send application/yaml or application/json", text)
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return "", fmt.Errorf("charset %q is not understood: send UTF-8", charset)
	}
	return formatOf(mediaType, "Content-Type", text)
}

func formatOf(mediaType, name, text string) (string, error) {
	switch {
	case !slices.Contains(mediaTypes, mediaType):
		return "", fmt.Errorf("%s %q is not understood: use application/yaml or application/json", name, text)
	case mediaType == jsonType:
		return jsonType, nil
	default:
		return yamlType, nil
	}
}

// readBody reads all of a body.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, *Problem) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxManifestBytes))
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return nil, problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is too long: send %d bytes or less", tooLong.Limit))
	}
	if err != nil {
		return nil, problem(http.StatusBadRequest, "the body could not be read to its end: send it again")
	}
	return body, nil
}

// query holds the parameters of a request.
type query struct {
	// namespace of documents that name none; empty means the default one.
	namespace string
	// offline means that the answer depends on the documents alone.
	offline bool
}

// parseQuery refuses parameters that cannot be used. Unknown ones are refused as well: a misspelt one
// would change the answer unseen.
func parseQuery(raw string) (out query, _ *Problem) {
	const unusable = "the query cannot be used"
	values, err := url.ParseQuery(raw)
	if err != nil {
		return out, problem(http.StatusBadRequest, unusable, "not readable as a query: "+err.Error())
	}
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
			problems = append(problems, fmt.Sprintf("%q is not a parameter: use namespace or offline", name))
		}
	}
	if slices.Sort(problems); len(problems) > 0 {
		return out, problem(http.StatusBadRequest, unusable, problems...)
	}
	return out, nil
}
