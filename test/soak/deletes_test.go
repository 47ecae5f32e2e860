package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Each answer is given at some time, most objects are simply deleted, and none is given trouble for
// ever.
func TestDeleteWebhookDecides(t *testing.T) {
	d := newDeleteWebhook(newRandom(1, 4))
	defer d.close()
	most := 0
	for i := range 1000 {
		refusals := 0
		for range 10 {
			if answer, _, _ := d.decide(fmt.Sprint(i)); answer != allow {
				refusals++
			}
		}
		most = max(most, refusals)
	}
	for i, n := range d.counts {
		if n == 0 {
			t.Errorf("no DELETE got answer %d", i)
		}
	}
	if d.counts[allow] < 7000 || most != mostTrouble {
		t.Errorf("%d of 10,000 were allowed, an object was given trouble %d times", d.counts[allow], most)
	}
	d.calmDown(true)
	if answer, _, _ := d.decide("late"); answer != allow {
		t.Errorf("in the end the answer is %d", answer)
	}
}

// A denial without a code has none, and one that claims a conflict has code 409.
func TestDeleteWebhookAnswers(t *testing.T) {
	d := newDeleteWebhook(newRandom(1, 4))
	defer d.close()
	d.strike = func(string) {}
	ask := func(uid string) *admissionv1.AdmissionResponse {
		t.Helper()
		review, err := json.Marshal(admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
			UID: types.UID("review"), OldObject: runtime.RawExtension{Raw: []byte(`{"metadata":{"uid":"` + uid + `"}}`)}}})
		if err != nil {
			t.Fatal(err)
		}
		response, err := d.server.Client().Post(d.server.URL, "application/json", strings.NewReader(string(review)))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("it answers %s", response.Status)
		}
		var answer admissionv1.AdmissionReview
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
		return answer.Response
	}
	d.last["plain"], d.repeat["plain"] = denyPlain, 1
	d.last["conflict"], d.repeat["conflict"] = denyConflict, 1
	if answer := ask("plain"); answer.Allowed || answer.Result != nil {
		t.Errorf("a plain denial is %+v", answer)
	}
	if answer := ask("conflict"); answer.Allowed || answer.Result == nil || answer.Result.Code != http.StatusConflict {
		t.Errorf("a conflict is %+v", answer)
	}
	d.calmDown(true)
	if answer := ask("calm"); !answer.Allowed || answer.UID != "review" {
		t.Errorf("when it is calm it answers %+v", answer)
	}
}
