package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
)

// AppendAnswer appends an AdmissionReview with a response.
func AppendAnswer(to []byte, response *admissionv1.AdmissionResponse) ([]byte, error) {
	to = append(to, `{"kind":"`+kind+`","apiVersion":"`+apiVersion+`","response":{"uid":`...)
	to = appendString(to, string(response.UID))
	if response.Allowed {
		to = append(to, `,"allowed":true`...)
	} else {
		to = append(to, `,"allowed":false`...)
	}
	if response.Result != nil {
		status, err := json.Marshal(response.Result)
		if err != nil {
			return nil, fmt.Errorf("writing the status: %w", err)
		}
		to = append(append(to, `,"status":`...), status...)
	}
	if len(response.Patch) > 0 {
		to = append(to, `,"patchType":"`+string(admissionv1.PatchTypeJSONPatch)+`","patch":"`...)
		to = base64.StdEncoding.AppendEncode(to, response.Patch)
		to = append(to, '"')
	}
	if len(response.AuditAnnotations) > 0 {
		to = append(to, `,"auditAnnotations":`...)
		separator := byte('{')
		for _, key := range slices.Sorted(maps.Keys(response.AuditAnnotations)) {
			to = append(to, separator)
			to = append(appendString(to, key), ':')
			to = appendString(to, response.AuditAnnotations[key])
			separator = ','
		}
		to = append(to, '}')
	}
	if len(response.Warnings) > 0 {
		to = append(to, `,"warnings":`...)
		separator := byte('[')
		for _, warning := range response.Warnings {
			to = appendString(append(to, separator), warning)
			separator = ','
		}
		to = append(to, ']')
	}
	return append(to, `}}`...), nil
}
