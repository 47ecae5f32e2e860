package harness

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Question is a request to the HTTP API of a webhook.
type Question struct {
	// Path with its query, such as /v1/validate?namespace=ci.
	Path string
	// Manifests are the body, in YAML.
	Manifests string
	// Token of the caller; empty means an anonymous one.
	Token string
	// Accept is the media type of the answer; empty means JSON.
	Accept string
}

// Ask posts to the HTTP API of a webhook, whose certificate has to be the one that the API server
// was told to trust.
func (c *Cluster) Ask(ctx context.Context, webhook *Curfew, question Question) (status int, answer string, err error) {
	configuration, err := c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, "curfew", metav1.GetOptions{})
	if err != nil {
		return 0, "", fmt.Errorf("read whom the API server trusts: %w", err)
	}
	authorities := x509.NewCertPool()
	if len(configuration.Webhooks) == 0 || !authorities.AppendCertsFromPEM(configuration.Webhooks[0].ClientConfig.CABundle) {
		return 0, "", errors.New("the webhook configuration has no CA bundle")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+webhook.API+question.Path, strings.NewReader(question.Manifests))
	if err != nil {
		return 0, "", fmt.Errorf("ask %s: %w", question.Path, err)
	}
	request.Header.Set("Content-Type", "application/yaml")
	if question.Accept != "" {
		request.Header.Set("Accept", question.Accept)
	}
	if question.Token != "" {
		request.Header.Set("Authorization", "Bearer "+question.Token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: Patience}
	response, err := client.Do(request)
	// It refuses requests while admission reviews a large object, such as another test's.
	for retry := 0; err == nil && response.StatusCode == http.StatusServiceUnavailable && retry < 60; retry++ {
		_ = response.Body.Close()
		select {
		case <-ctx.Done():
			return 0, "", ctx.Err()
		case <-time.After(time.Second):
		}
		if request.Body, err = request.GetBody(); err == nil {
			response, err = client.Do(request)
		}
	}
	if err != nil {
		return 0, "", fmt.Errorf("ask %s: %w", question.Path, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, "", fmt.Errorf("read the answer of %s: %w", question.Path, err)
	}
	return response.StatusCode, string(body), nil
}
