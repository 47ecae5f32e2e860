package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// answer is a response with a body in JSON.
func (w *World) answer(code int, body any) *http.Response {
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Errorf("encoding an answer: %v", err)
	}
	return w.response(code, "application/json", io.NopCloser(bytes.NewReader(text)), int64(len(text)))
}

func (w *World) response(code int, name string, body io.ReadCloser, length int64) *http.Response {
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {name}, "Date": {w.now().UTC().Format(http.TimeFormat)}}, Body: body, ContentLength: length,
	}
}

// refuse answers with the Status of an error.
func (w *World) refuse(err error) *http.Response {
	status := statusOf(err)
	return w.answer(int(status.Code), status)
}

func statusOf(err error) *metav1.Status {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}}
	}
	status := known.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return &status
}

// deletedStatus is the answer to a DELETE after which the object is gone.
func deletedStatus(r *Request) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: r.Name, Group: r.Resource.Group, Kind: r.Resource.Resource},
	}
}

// shape is an object as the client asked for it.
func (r *Request) shape(object *unstructured.Unstructured) map[string]any {
	if !r.partial {
		return object.Object
	}
	return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object.Object["metadata"]}
}

// document answers discovery, /version, and paths that are not served.
func (w *World) document(r *Request) *http.Response {
	parts := strings.Split(strings.Trim(r.path, "/"), "/")
	switch {
	case r.path == "/version":
		return w.answer(http.StatusOK, map[string]string{"major": "1", "minor": "34", "gitVersion": "v1.34.0"})
	case r.path == "/api":
		return w.answer(http.StatusOK, map[string]any{"kind": "APIVersions", "versions": []string{"v1"}})
	case r.path == "/apis":
		return w.answer(http.StatusOK, w.groups())
	case len(parts) == 2 && parts[0] == "api", len(parts) == 3 && parts[0] == "apis":
		groupVersion := schema.GroupVersion{Version: parts[len(parts)-1]}
		if parts[0] == "apis" {
			groupVersion.Group = parts[1]
		}
		if found := w.resources(groupVersion); found != nil {
			return w.answer(http.StatusOK, found)
		}
	}
	text := "404 page not found\n"
	return w.response(http.StatusNotFound, "text/plain", io.NopCloser(strings.NewReader(text)), int64(len(text)))
}
