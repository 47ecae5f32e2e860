package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// side is one of the two API servers.
type side struct {
	client *http.Client
	base   string
	run    string // in the names and labels of all objects
	// objects are the last states that it has shown, and stale older resourceVersions, by resource and
	// name.
	objects map[string]map[string]any
	stale   map[string]string
	began   map[string]string // resourceVersions from which watches begin, by resource
}

// result is an answer.
type result struct {
	Code    int
	Reason  string
	Details map[string]any
	Object  map[string]any
}

var patchTypes = map[string]string{
	"merge": "application/merge-patch+json", "json": "application/json-patch+json", "strategic": "application/strategic-merge-patch+json"}

const partial = "application/json;as=PartialObjectMetadata%s;g=meta.k8s.io;v=v1,application/json"

// send sends a request and decodes the answer.
func (s *side) send(method, path string, query url.Values, header map[string]string, body any) (int, map[string]any, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequest(method, s.base+path+"?"+query.Encode(), bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	for key, value := range header {
		request.Header.Set(key, value)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if text, err = io.ReadAll(response.Body); err != nil {
		return 0, nil, err
	}
	answer := map[string]any{}
	if err := json.Unmarshal(text, &answer); err != nil {
		answer["text"] = strings.TrimSpace(string(text))
	}
	return response.StatusCode, answer, nil
}

func (s *side) named(name string) string { return "c" + s.run + "-" + name }

// do carries out a step.
func (s *side) do(of *step) (*result, error) {
	key, name := of.kind.resource+"/"+of.name, s.named(of.name)
	path, method, query, header := of.kind.path, http.MethodGet, url.Values{}, map[string]string{}
	var body any
	if of.dryRun {
		query.Set("dryRun", "All")
	}
	if of.partial {
		header["Accept"] = fmt.Sprintf(partial, "")
	}
	switch of.verb {
	case "create":
		method, body = http.MethodPost, s.created(of)
	case "get":
		path += "/" + name
	case "list":
		query.Set("labelSelector", "run="+s.run)
		if of.limit > 0 {
			query.Set("limit", strconv.Itoa(of.limit))
		}
		if of.partial {
			header["Accept"] = fmt.Sprintf(partial, "List")
		}
	case "update":
		method, body, path = http.MethodPut, s.changed(of, key), path+"/"+name
	case "patch":
		method, path = http.MethodPatch, path+"/"+name
		header["Content-Type"] = patchTypes[of.patch]
		body = s.patchOf(of, key)
	case "delete":
		method, body, path = http.MethodDelete, s.options(of, key), path+"/"+name
	}
	if of.subresource != "" {
		path += "/" + of.subresource
	}
	code, answer, err := s.send(method, path, query, header, body)
	if err != nil {
		return nil, err
	}
	if _, list := answer["items"]; list {
		items, _ := answer["items"].([]any)
		if answer["items"], err = s.pages(path, query, header, items, answer); err != nil {
			return nil, err
		}
	}
	return s.result(of, key, code, answer), nil
}

// pages adds the other pages of a list. A page may have fewer objects than its limit, or none: objects
// of other sequences are passed over.
func (s *side) pages(path string, query url.Values, header map[string]string, items []any, page map[string]any) ([]any, error) {
	for {
		token, _ := at(page, "metadata")["continue"].(string)
		if token == "" {
			return items, nil
		}
		query.Set("continue", token)
		code, next, err := s.send(http.MethodGet, path, query, header, nil)
		if err != nil {
			return nil, err
		}
		more, _ := next["items"].([]any)
		if code != http.StatusOK {
			return nil, fmt.Errorf("answer %d to a continue token: %v", code, next)
		}
		items, page = append(items, more...), next
	}
}

// created is the body of a create.
func (s *side) created(of *step) map[string]any {
	object := clone(of.content)
	metadata := map[string]any{"name": s.named(of.name), "namespace": "default", "labels": map[string]any{"run": s.run}}
	if len(of.finalizers) > 0 {
		metadata["finalizers"] = of.finalizers
	}
	if of.owner != "" {
		metadata["ownerReferences"] = []any{map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "name": s.named(of.owner), "uid": "ffffffff-0000-4000-8000-00000000000f"}}
	}
	switch of.bad {
	case "name":
		metadata["name"] = "Not_A_Name"
	case "namespace":
		metadata["namespace"] = "other"
	case "version":
		metadata["resourceVersion"] = "1"
	case "label":
		metadata["labels"] = map[string]any{"run": s.run, "bad key!": "x"}
	}
	object["metadata"], object["apiVersion"], object["kind"] = metadata, of.kind.apiVersion, of.kind.kind
	return object
}

// changed is the last known state with the change of a step.
func (s *side) changed(of *step, key string) map[string]any {
	object := clone(s.objects[key])
	if len(object) == 0 {
		object = map[string]any{"apiVersion": of.kind.apiVersion, "kind": of.kind.kind, "metadata": map[string]any{"name": s.named(of.name), "namespace": "default", "labels": map[string]any{"run": s.run}}}
	}
	metadata := at(object, "metadata")
	switch of.change {
	case "edit":
		of.kind.edit(object, of.n)
	case "label":
		at(metadata, "labels")["n"] = fmt.Sprint(of.n)
	case "unlabel":
		delete(at(metadata, "labels"), "run")
	case "finalize":
		held, _ := metadata["finalizers"].([]any)
		metadata["finalizers"] = append(slices.Clone(held), fmt.Sprint("example.dev/more-", of.n))
	case "release":
		delete(metadata, "finalizers")
	case "status":
		if of.kind.status != nil {
			of.kind.status(object, of.n)
		}
	}
	s.identify(of, key, metadata)
	return object
}

// identify sets resourceVersion and UID as a step wants them.
func (s *side) identify(of *step, key string, metadata map[string]any) {
	known := at(clone(s.objects[key]), "metadata")
	delete(metadata, "resourceVersion")
	delete(metadata, "uid")
	switch of.version {
	case "current":
		metadata["resourceVersion"] = known["resourceVersion"]
	case "stale":
		if old, ok := s.stale[key]; ok {
			metadata["resourceVersion"] = old
		}
	}
	switch of.uid {
	case "current":
		metadata["uid"] = known["uid"]
	case "wrong":
		metadata["uid"] = "ffffffff-0000-4000-8000-00000000000e"
	}
	for _, field := range []string{"resourceVersion", "uid"} {
		if metadata[field] == nil {
			delete(metadata, field)
		}
	}
}

// patchOf is the patch from the last known state to the one that a step wants. Nothing but
// resourceVersion and UID is a precondition.
func (s *side) patchOf(of *step, key string) any {
	was := clone(s.objects[key])
	metadata := at(was, "metadata")
	delete(metadata, "resourceVersion")
	delete(metadata, "uid")
	is := s.changed(of, key)
	if of.patch == "json" {
		out := []any{}
		for field, value := range at(is, "metadata") {
			if field == "resourceVersion" || field == "uid" {
				out = append(out, map[string]any{"op": "test", "path": "/metadata/" + field, "value": value})
			}
		}
		slices.SortFunc(out, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return append(out, map[string]any{"op": "add", "path": "/metadata/annotations", "value": map[string]any{"n": fmt.Sprint(of.n)}})
	}
	before, _ := json.Marshal(was)
	after, _ := json.Marshal(is)
	text, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return map[string]any{}
	}
	out := map[string]any{}
	_ = json.Unmarshal(text, &out)
	if of.patch == "strategic" {
		if metadata, ok := out["metadata"].(map[string]any); ok {
			delete(metadata, "finalizers") // A list of primitives is merged.
			if of.change == "release" {
				metadata["$deleteFromPrimitiveList/finalizers"] = []any{"example.dev/keep"}
			}
		}
	}
	return out
}

// options of a DELETE.
func (s *side) options(of *step, key string) map[string]any {
	out := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1"}
	preconditions := map[string]any{}
	if s.identify(of, key, preconditions); len(preconditions) > 0 {
		out["preconditions"] = preconditions
	}
	if of.propagation != "" {
		out["propagationPolicy"] = of.propagation
	}
	if of.orphan {
		out["orphanDependents"] = true
	}
	if of.grace >= 0 {
		out["gracePeriodSeconds"] = of.grace
	}
	if of.dryRun {
		out["dryRun"] = []any{"All"}
	}
	return out
}

// result takes over what an answer shows, and leaves what both sides must have in common.
func (s *side) result(of *step, key string, code int, answer map[string]any) *result {
	out := &result{Code: code}
	if answer["kind"] == "Status" {
		out.Reason, _ = answer["reason"].(string)
		out.Details, _ = answer["details"].(map[string]any)
		delete(out.Details, "uid")
		if out.Details["causes"] != nil {
			out.Details["causes"] = causes(out.Details["causes"], of.kind.loose)
		}
		return out
	}
	if _, list := answer["items"]; list {
		out.Object = s.normalList(of, answer)
		return out
	}
	if answer["metadata"] == nil {
		out.Object = answer
		return out
	}
	metadata := at(answer, "metadata")
	version, _ := metadata["resourceVersion"].(string)
	known := at(clone(s.objects[key]), "metadata")
	out.Object = s.normal(of.kind, answer)
	out.Object["sameVersion"] = known["resourceVersion"] == metadata["resourceVersion"]
	out.Object["sameObject"] = known["uid"] == metadata["uid"]
	if !of.partial && !of.dryRun {
		if old, _ := known["resourceVersion"].(string); old != "" && old != version {
			s.stale[key] = old
		}
		s.objects[key] = answer
	}
	return out
}

// causes keeps the fields that are at fault. Some validations report a field twice. Where the kind is
// loose, the API server checks more of the spec than package world does.
func causes(all any, loose bool) []any {
	var out []any
	list, _ := all.([]any)
	for _, one := range list {
		cause, _ := one.(map[string]any)
		if name, _ := cause["field"].(string); !loose || !strings.HasPrefix(name, "spec.") {
			out = append(out, cause["field"])
		}
	}
	slices.SortFunc(out, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return slices.CompactFunc(out, func(a, b any) bool { return a == b })
}

func clone(object map[string]any) map[string]any {
	text, _ := json.Marshal(object)
	out := map[string]any{}
	_ = json.Unmarshal(text, &out)
	if out == nil {
		out = map[string]any{}
	}
	return out
}

func (s *side) normalList(of *step, answer map[string]any) map[string]any {
	items, _ := answer["items"].([]any)
	out := map[string]any{"kind": answer["kind"], "apiVersion": answer["apiVersion"]}
	for i, item := range items {
		object, _ := item.(map[string]any)
		out[fmt.Sprint("item ", i)] = s.normal(of.kind, object)
	}
	return out
}

// normal is an object without what differs between any two API servers.
func (s *side) normal(of *kind, object map[string]any) map[string]any {
	out := clone(object)
	metadata := at(out, "metadata")
	for _, field := range []string{"uid", "resourceVersion", "managedFields"} {
		delete(metadata, field)
	}
	for _, field := range []string{"creationTimestamp", "deletionTimestamp"} {
		if metadata[field] != nil {
			metadata[field] = "set"
		} else {
			delete(metadata, field) // Older releases answer null where no time is set.
		}
	}
	if of.resource == "jobs" { // A Job without labels gets the labels of its Pod template.
		labels := at(metadata, "labels")
		maps.DeleteFunc(labels, func(key string, _ any) bool {
			return strings.HasSuffix(key, "controller-uid") || strings.HasSuffix(key, "job-name")
		})
		if len(labels) == 0 {
			delete(metadata, "labels")
		}
	}
	if of.resource == "pods" {
		delete(metadata, "generation") // Kubernetes counts generations of Pods from 1.33 on.
	}
	text, _ := json.Marshal(out)
	_ = json.Unmarshal([]byte(strings.ReplaceAll(string(text), s.named(""), "")), &out)
	return maps.Clone(out)
}
