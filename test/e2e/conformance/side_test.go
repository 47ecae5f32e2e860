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
func (s *side) do(entry *step) (*result, error) {
	key, name := entry.kind.resource+"/"+entry.name, s.named(entry.name)
	path, method, query, header := entry.kind.path, http.MethodGet, url.Values{}, map[string]string{}
	var body any
	if entry.dryRun {
		query.Set("dryRun", "All")
	}
	if entry.partial {
		header["Accept"] = fmt.Sprintf(partial, "")
	}
	switch entry.verb {
	case "create":
		method, body = http.MethodPost, s.created(entry)
	case "get":
		path += "/" + name
	case "list":
		query.Set("labelSelector", "run="+s.run)
		if entry.limit > 0 {
			query.Set("limit", strconv.Itoa(entry.limit))
		}
		if entry.partial {
			header["Accept"] = fmt.Sprintf(partial, "List")
		}
	case "update":
		method, body, path = http.MethodPut, s.changed(entry, key), path+"/"+name
	case "patch":
		method, path = http.MethodPatch, path+"/"+name
		header["Content-Type"] = patchTypes[entry.patch]
		body = s.patchOf(entry, key)
	case "delete":
		method, body, path = http.MethodDelete, s.options(entry, key), path+"/"+name
	}
	if entry.subresource != "" {
		path += "/" + entry.subresource
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
	return s.result(entry, key, code, answer), nil
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
func (s *side) created(entry *step) map[string]any {
	object := clone(entry.content)
	metadata := map[string]any{"name": s.named(entry.name), "namespace": "default", "labels": map[string]any{"run": s.run}}
	if len(entry.finalizers) > 0 {
		metadata["finalizers"] = entry.finalizers
	}
	if entry.owner != "" {
		metadata["ownerReferences"] = []any{map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "name": s.named(entry.owner), "uid": "ffffffff-0000-4000-8000-00000000000f"}}
	}
	switch entry.bad {
	case "name":
		metadata["name"] = "Not_A_Name"
	case "namespace":
		metadata["namespace"] = "other"
	case "version":
		metadata["resourceVersion"] = "1"
	case "label":
		metadata["labels"] = map[string]any{"run": s.run, "bad key!": "x"}
	}
	object["metadata"], object["apiVersion"], object["kind"] = metadata, entry.kind.apiVersion, entry.kind.kind
	return object
}

// changed is the last known state with the change of a step.
func (s *side) changed(entry *step, key string) map[string]any {
	object := clone(s.objects[key])
	if len(object) == 0 {
		object = map[string]any{"apiVersion": entry.kind.apiVersion, "kind": entry.kind.kind, "metadata": map[string]any{"name": s.named(entry.name), "namespace": "default", "labels": map[string]any{"run": s.run}}}
	}
	metadata := at(object, "metadata")
	switch entry.change {
	case "edit":
		entry.kind.edit(object, entry.n)
	case "label":
		at(metadata, "labels")["n"] = fmt.Sprint(entry.n)
	case "unlabel":
		delete(at(metadata, "labels"), "run")
	case "finalize":
		held, _ := metadata["finalizers"].([]any)
		metadata["finalizers"] = append(slices.Clone(held), fmt.Sprint("example.dev/more-", entry.n))
	case "release":
		delete(metadata, "finalizers")
	case "status":
		if entry.kind.status != nil {
			entry.kind.status(object, entry.n)
		}
	}
	s.identify(entry, key, metadata)
	return object
}

// identify sets resourceVersion and UID as a step wants them.
func (s *side) identify(entry *step, key string, metadata map[string]any) {
	known := at(clone(s.objects[key]), "metadata")
	delete(metadata, "resourceVersion")
	delete(metadata, "uid")
	switch entry.version {
	case "current":
		metadata["resourceVersion"] = known["resourceVersion"]
	case "stale":
		if old, ok := s.stale[key]; ok {
			metadata["resourceVersion"] = old
		}
	}
	switch entry.uid {
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
func (s *side) patchOf(entry *step, key string) any {
	was := clone(s.objects[key])
	metadata := at(was, "metadata")
	delete(metadata, "resourceVersion")
	delete(metadata, "uid")
	is := s.changed(entry, key)
	if entry.patch == "json" {
		out := []any{}
		for field, value := range at(is, "metadata") {
			if field == "resourceVersion" || field == "uid" {
				out = append(out, map[string]any{"op": "test", "path": "/metadata/" + field, "value": value})
			}
		}
		slices.SortFunc(out, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return append(out, map[string]any{"op": "add", "path": "/metadata/annotations", "value": map[string]any{"n": fmt.Sprint(entry.n)}})
	}
	before, _ := json.Marshal(was)
	after, _ := json.Marshal(is)
	text, err := jsonpatch.CreateMergePatch(before, after)
	if err != nil {
		return map[string]any{}
	}
	out := map[string]any{}
	_ = json.Unmarshal(text, &out)
	if entry.patch == "strategic" {
		if metadata, ok := out["metadata"].(map[string]any); ok {
			delete(metadata, "finalizers") // A list of primitives is merged.
			if entry.change == "release" {
				metadata["$deleteFromPrimitiveList/finalizers"] = []any{"example.dev/keep"}
			}
		}
	}
	return out
}

// options of a DELETE.
func (s *side) options(entry *step, key string) map[string]any {
	out := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1"}
	preconditions := map[string]any{}
	if s.identify(entry, key, preconditions); len(preconditions) > 0 {
		out["preconditions"] = preconditions
	}
	if entry.propagation != "" {
		out["propagationPolicy"] = entry.propagation
	}
	if entry.orphan {
		out["orphanDependents"] = true
	}
	if entry.grace >= 0 {
		out["gracePeriodSeconds"] = entry.grace
	}
	if entry.dryRun {
		out["dryRun"] = []any{"All"}
	}
	return out
}

// result takes over what an answer shows, and leaves what both sides must have in common.
func (s *side) result(entry *step, key string, code int, answer map[string]any) *result {
	out := &result{Code: code}
	if answer["kind"] == "Status" {
		out.Reason, _ = answer["reason"].(string)
		out.Details, _ = answer["details"].(map[string]any)
		delete(out.Details, "uid")
		if out.Details["causes"] != nil {
			out.Details["causes"] = causes(out.Details["causes"], entry.kind.loose)
		}
		return out
	}
	if _, list := answer["items"]; list {
		out.Object = s.normalList(entry, answer)
		return out
	}
	if answer["metadata"] == nil {
		out.Object = answer
		return out
	}
	metadata := at(answer, "metadata")
	version, _ := metadata["resourceVersion"].(string)
	known := at(clone(s.objects[key]), "metadata")
	out.Object = s.normal(entry.kind, answer)
	out.Object["sameVersion"] = known["resourceVersion"] == metadata["resourceVersion"]
	out.Object["sameObject"] = known["uid"] == metadata["uid"]
	if !entry.partial && !entry.dryRun {
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
	for _, value := range list {
		cause, _ := value.(map[string]any)
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

func (s *side) normalList(entry *step, answer map[string]any) map[string]any {
	items, _ := answer["items"].([]any)
	out := map[string]any{"kind": answer["kind"], "apiVersion": answer["apiVersion"]}
	for i, item := range items {
		object, _ := item.(map[string]any)
		out[fmt.Sprint("item ", i)] = s.normal(entry.kind, object)
	}
	return out
}

// normal is an object without what differs between any two API servers.
func (s *side) normal(info *kind, object map[string]any) map[string]any {
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
	if info.resource == "jobs" { // A Job without labels gets the labels of its Pod template.
		labels := at(metadata, "labels")
		maps.DeleteFunc(labels, func(key string, _ any) bool {
			return strings.HasSuffix(key, "controller-uid") || strings.HasSuffix(key, "job-name")
		})
		if len(labels) == 0 {
			delete(metadata, "labels")
		}
	}
	if info.resource == "pods" {
		delete(metadata, "generation") // Kubernetes counts generations of Pods from 1.33 on.
	}
	text, _ := json.Marshal(out)
	_ = json.Unmarshal([]byte(strings.ReplaceAll(string(text), s.named(""), "")), &out)
	return maps.Clone(out)
}
