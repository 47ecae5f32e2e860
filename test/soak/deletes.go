package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/test/harness"
)

// answer is how the DELETE webhook responds to one request.
type answer uint8

const (
	allow         answer = iota
	denyPlain            // denied without a code: the API server answers 400
	denyConflict         // denied with code 409, as if the object had changed
	denyThrottled        // denied with code 429, which asks the client to wait
	fail                 // HTTP 500: the API server answers 500, because the webhook's failure policy is Fail
	hang                 // allowed, but only after a while
	hangForever          // never answered: the API server gives up after its timeout
)

// answers say how often the webhook gives each answer to an object that it has not given trouble to
// yet.
var answers = []share[answer]{
	{allow, 80}, {denyPlain, 5}, {denyConflict, 5}, {denyThrottled, 1}, {fail, 3}, {hang, 5}, {hangForever, 1},
}

const (
	// webhookTimeout is after how long the API server gives up on the webhook. A DELETE takes hardly
	// longer than this.
	webhookTimeout = 4 * time.Second
	// mostTrouble is how many DELETEs of one object get no plain "allow". Curfew's pauses double with
	// each refusal, and the soak has to end.
	mostTrouble = 4
)

// deleteWebhook is a validating webhook for DELETE, as many clusters have one. It denies, hangs,
// fails and claims conflicts at random.
type deleteWebhook struct {
	server *httptest.Server
	// strike changes an object while its DELETE hangs, or after it was denied.
	strike func(uid string)

	mu       sync.Mutex
	random   *rand.Rand
	calm     bool           // allow everything
	only     answer         // to every DELETE, unless it is allow
	troubled map[string]int // by UID: how many DELETEs were troubled
	repeat   map[string]int // by UID: how many more DELETEs get the last answer
	last     map[string]answer
	counts   [hangForever + 1]int
}

func newDeleteWebhook(random *rand.Rand) *deleteWebhook {
	d := &deleteWebhook{random: random, troubled: map[string]int{}, repeat: map[string]int{}, last: map[string]answer{}}
	d.server = httptest.NewUnstartedServer(d)
	d.server.Config.ErrorLog = log.New(io.Discard, "", 0) // the API server is killed while it connects
	d.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	d.server.StartTLS()
	return d
}

func (d *deleteWebhook) close() { d.server.Close() }

// calmDown lets the webhook allow everything from now on.
func (d *deleteWebhook) calmDown(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calm = on
}

// gaveTrouble reports whether a DELETE of this object was not simply allowed.
func (d *deleteWebhook) gaveTrouble(uid string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.troubled[uid] > 0
}

// gave is how often it gave an answer.
func (d *deleteWebhook) gave(a answer) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts[a]
}

// decide picks the answer for one DELETE. Refusals come in a row, because a client may treat the
// second one differently.
func (d *deleteWebhook) decide(uid string) (next answer, wait time.Duration, strike bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer func() { d.counts[next]++ }()
	switch {
	case d.only != allow:
		return d.only, 0, false
	case d.calm || d.troubled[uid] >= mostTrouble:
		return allow, 0, false
	case d.repeat[uid] > 0:
		d.repeat[uid]--
		next = d.last[uid]
	default:
		next = pick(d.random, answers)
		if next == denyPlain || next == denyConflict {
			d.repeat[uid] = d.random.IntN(3)
		}
		d.last[uid] = next
	}
	if next == allow {
		return allow, 0, false
	}
	d.troubled[uid]++
	switch next {
	case hang:
		wait = 300*time.Millisecond + time.Duration(d.random.Int64N(int64(webhookTimeout-time.Second)))
	case hangForever:
		wait = webhookTimeout + time.Second
	}
	return next, wait, d.random.IntN(3) == 0
}

func (d *deleteWebhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no AdmissionReview", http.StatusBadRequest)
		return
	}
	var old struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(review.Request.OldObject.Raw, &old); err != nil {
		http.Error(w, "no oldObject", http.StatusBadRequest)
		return
	}
	next, wait, strike := d.decide(old.Metadata.UID)
	if strike {
		d.strike(old.Metadata.UID)
	}
	pause(r.Context(), wait)
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: next == allow || next == hang || next == hangForever}
	switch next {
	case denyConflict:
		response.Result = &metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "the soak claims a conflict"}
	case denyThrottled:
		response.Result = &metav1.Status{Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: "the soak claims to be busy"}
	case fail:
		http.Error(w, "the soak's webhook failed", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response}) // the API server may be gone
}

// onDelete is a rule for DELETEs of a resource.
func onDelete(group, resource string) registrationv1.RuleWithOperations {
	return registrationv1.RuleWithOperations{
		Operations: []registrationv1.OperationType{registrationv1.Delete},
		Rule:       registrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
	}
}

// register makes the API server ask the webhook about the DELETEs of a user: Curfew, or an account
// as which it acts. The second writer's are none of its business: they must happen.
func (d *deleteWebhook) register(ctx context.Context, cluster *harness.Cluster, name, user string, rules ...registrationv1.RuleWithOperations) error {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.server.Certificate().Raw})
	none, failed := registrationv1.SideEffectClassNone, registrationv1.Fail
	timeout, url := int32(webhookTimeout/time.Second), d.server.URL
	_, err := cluster.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &registrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []registrationv1.ValidatingWebhook{{
			Name: name + ".soak.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &failed, TimeoutSeconds: &timeout,
			ClientConfig: registrationv1.WebhookClientConfig{URL: &url, CABundle: authority},
			Rules:        rules,
			MatchConditions: []registrationv1.MatchCondition{{
				Name: "user", Expression: fmt.Sprintf("request.userInfo.username == %q", user)}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("register the DELETE webhook %s: %w", name, err)
	}
	return nil
}
