# Curfew's targets. `make help` lists them; all that is needed is Go, git and make, and Linux for the local control plane.

.DEFAULT_GOAL := help
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
# Without symbol tables and debug information a binary is two thirds as large.
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(shell git describe --always --abbrev=40 --dirty --exclude "*" 2>/dev/null || echo unknown)

# Without paths of this machine, a fresh clone finds all that another one has compiled in the build cache.
export GOFLAGS := $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath

# The most concurrent packages. RACE=1 tests them with the race detector instead of without it, as .ci/run does.
CONCURRENT := $(addsuffix /...,$(addprefix ./controller/,cleanup deletion discovery expire follow stop tally watch) ./webhook)
# Tests of the product; those in test/e2e start a control plane and have a target of their own.
UNIT = $(shell go list ./... | grep -v /test/e2e $(if $(RACE),| grep -vxF "$$(go list $(CONCURRENT))"))
# How many end-to-end tests run at once in a suite. They wait far more than they compute.
E2E_PARALLEL ?= 10
# End-to-end tests wait for conditions, each for ten minutes at most, which only a hang reaches. test/run leaves out of their output what
# passes, and leaves in what they wait for and what they skip.
E2E = go run ./test/run -timeout 60m -parallel $(E2E_PARALLEL)
# Packages whose tests run at once. Two cores is what there is.
P ?= 2

# make lint vets. On a machine that has compiled nothing yet, go test would vet all that we depend on first.
NOVET := -vet=off

# The newest Trainer, which test/peers pins itself.
PEERS ?= $(shell sed -n 's|^\tgithub.com/kubeflow/trainer/v2 \(v[^ ]*\).*|\1|p' test/peers/go.mod)

# Compiler and linker collect their garbage less often: that takes a fifth less of both cores, and half a gigabyte each at most.
COMPILING := GOGC=$(or $(GOGC),400)

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0

# gosec checks what runs in the cluster and the plugin. Left out: G101, which reports every name with "Secret" in it, G104 (unchecked errors),
# and G304, which reports every file that a flag names. The engine's compact index uses small integers (G115): it checks the number of
# kinds, and no cluster has 2^31 objects.
GOSEC := github.com/securego/gosec/v2/cmd/gosec@v2.30.0
GOSEC_FLAGS := -quiet -terse -color=false -exclude-generated -exclude=G101,G104,G304 -exclude-rules='controller/expire/.*:G115'
PRODUCT := ./cmd/... ./policy/... ./webhook/... ./controller/... ./certs/...

GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
VULNDB ?= https://vuln.go.dev
CLUSTER := bin/cluster
# As compilerFlags in test/cluster/local/build.go, so that what is compiled for one purpose serves the others.
KUBERNETES_FLAGS := k8s.io/kubernetes/...=-l -dwarf=false
# What stops objects, knows training jobs, or pins the versions of their controllers.
PEER_PATHS := controller/deletion controller/stop controller/expire policy webhook manifests/profiles test/peers test/harness 'test/e2e/peers*' test/e2e/suite_test.go \
	test/cluster/go.mod go.mod
# What manifests/release packs and tests.
RELEASE_PATHS := manifests go.mod go.sum cmd docs/verify.md LICENSE test/cluster test/harness policy/judging policy/wellknown

# A first build takes minutes; say how far it is. Go prints a line a package with -v.
PROGRESS := awk '/^go: downloading/ { next } /^[A-Za-z0-9.\/_~-]+$$/ { if (++n % 150 == 0) { print "  " n " packages compiled"; fflush() } next } { print; fflush() }' >&2

##@ See it

.PHONY: demo
demo: everything ## a tour of Curfew on a local control plane, with real kubectl output; takes all down afterwards
	@bin/demo tour

.PHONY: run
run: everything ## the same control plane with Curfew, to play with; Ctrl-C ends it
	@bin/demo run

##@ Local control plane (state, logs and kubeconfig in .cluster/)

.PHONY: cluster
cluster: $(CLUSTER) ## start a control plane in the background, return when it is ready (IN_TREE_TTL=0: without the in-tree TTL controller)
	@$(CLUSTER) start --in-tree-ttl=$(if $(filter 0,$(IN_TREE_TTL)),false,true)

.PHONY: cluster-stop
cluster-stop: down ## stop it and remove its data

.PHONY: up
up: everything ## make cluster, and Curfew installed and running against it (IN_TREE_TTL=0: as for make cluster)
	@bin/demo up

.PHONY: down
down: $(CLUSTER) build-demo ## stop Curfew and the control plane; harmless when nothing runs
	@bin/demo down

##@ Test

.PHONY: test
test: everything ## what everybody runs first: the unit tests, and what the README promises on a real control plane, at the same time (JOBS=1: one after the other)
	@$(call compile,./test/e2e/core)
	@$(MAKE) --jobs=$(or $(JOBS),2) --keep-going run-core test-unit

.PHONY: check
check: ## before each merge: formatting, go vet, staticcheck, house rules, and unit tests of what differs from BASE (by default where the branch began), as many as it can begin in five minutes (LIMIT=900: in 15)
	@GOFLAGS="$(GOFLAGS)" CONCURRENT="$(CONCURRENT)" STATICCHECK="$(STATICCHECK)" test/check.sh

.PHONY: test-unit
test-unit: ## tests that need no control plane, without manifests/release, which compiles Helm (RACE=1: the most concurrent ones with the race detector)
	$(COMPILING) go test $(NOVET) -p $(P) $(UNIT)
	$(if $(RACE),$(COMPILING) go test $(NOVET) -race -p $(P) $(CONCURRENT))
	$(COMPILING) go -C test/cluster test $(NOVET) -p $(P) ./local ./cmd/...

.PHONY: test-e2e
test-e2e: everything ## all other end-to-end tests, one suite after another: what can go wrong, kubectl curfew, serving, lifecycle, the whole controller in a cluster in memory, a minute of chaos, and if files of theirs changed chart and image, JobSet and Trainer (KUBERNETES=1.36: on that release)
	@$(call compile,./test/e2e/... ./test/soak)
	@status=0; for suite in e2e cli serving lifecycle conformance world soak peers release; do \
		began=$$SECONDS result=passed; $(MAKE) run-$$suite || status=1 result=FAILED; echo "suite $$suite $$result after $$((SECONDS - began))s"; \
	done; exit $$status

.PHONY: test-mutation
test-mutation: ## break each safety invariant on purpose and demand that a test fails (ONLY="S1" for some, ONLY=conditions for each condition in judge.go and deadline.go of policy/judging); leaves the tree alone
	@go run ./test/mutation -only '$(ONLY)'

.PHONY: test-full
test-full: build ## the long tests, part by part, before a release (PART="soak race": some of them); test/full/parts.go lists the parts, .full has their output and results
	@go run ./test/full $(PART)

.PHONY: fuzz
fuzz: ## each fuzz test for a while (FUZZTIME=1m)
	for file in $$(git grep -l '^func Fuzz' -- '*_test.go'); do \
		for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\).*/\1/p' $$file); do \
			go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(or $(FUZZTIME),1m) -fuzzminimizetime 5x ./$$(dirname $$file); \
		done; \
	done

.PHONY: bench
bench: build ## how fast Curfew drains expired Jobs, beside the in-tree controller and the API server's limit; writes .bench/results.json (BENCH="-record -only drain": one bench, and its results into the documentation)
	@go run ./test/bench $(BENCH)

.PHONY: bench-gate
bench-gate: build ## a little of make bench in 5 minutes: fails where a ratio breaks its limit in test/bench/gate.yaml (ROWS=drain,memory: these only; tally, deadline and cli_list run if their code differs from BASE, or with COLD=1); writes .bench/gate.json
	@. test/base.sh; go run ./test/bench -gate -base "$$BASE" -rows '$(ROWS)'

# The lock is held meanwhile, so that one deletion waits for the other. The tree is left alone.
.PHONY: bench-gate-proof
bench-gate-proof: build ## see the gate fail: with a build of Curfew that waits 5 ms before each deletion (ROWS=label_drain)
	@mkdir -p .bench; rm -f .bench/gate.json
	@sed '/^func (e \*Engine) next(/a\	time.Sleep(5 * time.Millisecond)' controller/expire/dispatch.go >.bench/slow-next.go
	@if cmp -s controller/expire/dispatch.go .bench/slow-next.go; then echo "found no place for the wait in controller/expire/dispatch.go" >&2; exit 1; fi
	@echo '{"Replace": {"$(CURDIR)/controller/expire/dispatch.go": "$(CURDIR)/.bench/slow-next.go"}}' >.bench/slow.json
	@go build -overlay .bench/slow.json -o .bench/curfew-slow ./cmd/curfew
	@go run ./test/bench -gate -rows '$(or $(ROWS),drain)' -curfew $(CURDIR)/.bench/curfew-slow || true
	@if ! grep -q '"verdict": "FAILED"' .bench/gate.json; then echo "the gate does not notice a wait of 5 ms" >&2; exit 1; fi

.PHONY: bench-report
bench-report: ## bring the tables in docs/performance.md up to date, and the marks of numbers that are older than their code
	@go run ./test/bench report

##@ Develop

.PHONY: build
build: $(CLUSTER) ## bin/curfew, bin/kubectl-curfew and its completion, and what the targets above run
	@$(call build,bin/,./cmd/curfew ./cmd/kubectl-curfew ./test/demo)
	@install -m 755 cmd/kubectl-curfew/kubectl_complete-curfew bin/

.PHONY: krew
krew: ## the kubectl plugin for krew: archives of all platforms and the plugin's manifest in dist/ (VERSION=v0.1.0 names a release; KREW="-url https://..." says where they will lie)
	@echo "building for 5 platforms; where nothing is compiled yet, each takes minutes" >&2
	@$(COMPILING) go run ./manifests/krew -version "$(RELEASE_VERSION)" $(KREW)

# $(call release,<what to make>)
RELEASE_VERSION = $(if $(filter v%,$(VERSION)),$(VERSION),v0.0.0-g$(VERSION))
release = $(COMPILING) go -C manifests/release run . -version "$(RELEASE_VERSION)" $(if $(IMAGE),-repository "$(IMAGE)") $(if $(PLATFORMS),-platforms "$(PLATFORMS)") \
	$(if $(RUNBOOKS),-runbooks "$(RUNBOOKS)") $(if $(BUILDER),-builder "$(BUILDER)") $(if $(SIGN_KEY),-key "$(abspath $(SIGN_KEY))") \
	$(if $(PGP_KEY),-pgp-key "$(abspath $(PGP_KEY))") $(if $(DIRTY),-dirty) $(1)

.PHONY: image
image: ## the container image in dist/: an OCI image layout for amd64, arm64, ppc64le and s390x, and archives to load (VERSION=v0.1.0, IMAGE=registry.example.com/curfew name it; PLATFORMS=linux/amd64: this one only)
	@echo "building for up to 4 platforms; where nothing is compiled yet, each takes minutes" >&2
	@$(call release,image)

.PHONY: chart
chart: ## the Helm chart of manifests/chart in dist/ (VERSION and IMAGE as for make image)
	@$(call release,chart)

.PHONY: release
release: ## all that is published of a version in dist/: image, chart, install.yaml (and install-dry-run.yaml), plugin archives, krew manifest, source, SBOMs, provenance, checksums (VERSION=v0.1.0, IMAGE=registry.example.com/curfew, RUNBOOKS=https://git.example.com/curfew/blob/{version}/ for links of alerts, SIGN_KEY=file to sign)
	@rm -rf dist
	@$(MAKE) krew
	@$(call release,image chart install source provenance checksums $(if $(SIGN_KEY),sign))

.PHONY: sign
sign: ## signs what make release has made in dist/ (SIGN_KEY=file, and VERSION and IMAGE as before; PGP_KEY=file: the chart for helm verify, too); docs/verify.md has the commands to verify it
	@$(call release,sign)

.PHONY: push
push: ## pushes the image of dist/ with its signature and attestations (IMAGE=registry.example.com/curfew; docker login first)
	@$(call release,push)

# Hugo and its theme are Go modules. Hugo asks the module proxy only if it is named.
HUGO = $(COMPILING) CGO_ENABLED=0 HUGO_MODULE_PROXY="$$(go env GOPROXY)" go -C docs/site run github.com/gohugoio/hugo@v0.155.0

# A branch release-0.1 is version v0.1 of the site, in its own folder, made with its own pages and layouts.
SITE_VERSIONS = $(shell git for-each-ref --sort=-v:refname --format='%(refname:lstrip=2)' 'refs/heads/release-*' | sed 's/^release-/v/')

.PHONY: site
site: ## the documentation as a site in dist/site, which opens from a folder, and each branch release-X.Y in dist/site/vX.Y; the first time Hugo is compiled, for minutes
	@HUGO_SITE_VERSIONS="$(SITE_VERSIONS)" $(HUGO) --noBuildLock --panicOnWarning --cleanDestinationDir --destination ../../dist/site
	@for version in $(SITE_VERSIONS); do \
		rm -rf dist/site-source; mkdir -p dist/site-source; git archive "release-$${version#v}" | tar -x -C dist/site-source; \
		HUGO_SITE_VERSIONS="$(SITE_VERSIONS)" HUGO_SITE_VERSION="$$version" $(subst docs/site,dist/site-source/docs/site,$(HUGO)) \
			--noBuildLock --panicOnWarning --destination "$(CURDIR)/dist/site/$$version"; \
	done; rm -rf dist/site-source

# Node.js and Chromium are needed for this target alone. npm fetches axe-core, parse5 and playwright-core, in the versions of package.json.
BROWSER ?= $(firstword $(shell command -v chromium chromium-browser google-chrome 2>/dev/null))
SITE_CHECK = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/curfew-site-check

.PHONY: site-check
site-check: ## the site in Chromium: links, anchors, HTML, axe-core; each page at two widths, light and dark (BROWSER=/path/to/chromium; PAGES="docs/ci|docs/index" opens and pictures only these)
	@[ -x "$(BROWSER)" ] || { echo "no Chromium: apt-get install chromium, or BROWSER=/path/to/chromium" >&2; exit 1; }
	@command -v npm >/dev/null || { echo "no npm: install Node.js 20 or newer" >&2; exit 1; }
	@$(MAKE) site
	@mkdir -p $(SITE_CHECK) && cp docs/site/check/* $(SITE_CHECK)/
	@npm install --prefix $(SITE_CHECK) --ignore-scripts --no-audit --no-fund --no-package-lock --loglevel=error
	@node $(SITE_CHECK)/check.mjs dist/site "$(BROWSER)" $(if $(PAGES),"$(PAGES)")

.PHONY: site-serve
site-serve: ## the same site on http://localhost:1313, updated while you edit
	@$(HUGO) server --noBuildLock --disableFastRender

.PHONY: size
size: ## code lines by folder, of product, tests and tools; test/house/ratchet.json has what their sums may be
	@go test ./test/house -run '^TestBudget$$' -v -count=1 | sed -n 's/^ *budget_test.go:[0-9]*: //p'

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, gosec and the house rules (test/house)
	@echo "1/7 gofmt" >&2
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "gofmt these: $$unformatted" >&2; exit 1; }
	@echo "2/7 go vet; where nothing is compiled yet, this takes minutes" >&2
	@$(COMPILING) go vet -v ./... 2> >($(PROGRESS))
	@echo "3/7 go vet of test/cluster, with Kubernetes itself" >&2
	@$(COMPILING) go -C test/cluster vet -gcflags='$(KUBERNETES_FLAGS)' -v ./... 2> >($(PROGRESS))
	@echo "4/7 go vet of manifests/release, with Helm" >&2
	@$(call if-changed,$(RELEASE_PATHS),go vet of manifests/release,$(COMPILING) go -C manifests/release vet -v ./... 2> >($(PROGRESS)))
	@echo "5/7 staticcheck; the first time it reads all dependencies, for minutes" >&2
	@go run $(STATICCHECK) ./...
	@echo "6/7 gosec; the first time it is compiled, for minutes" >&2
	@go run $(GOSEC) $(GOSEC_FLAGS) $(PRODUCT)
	@echo "7/7 house rules" >&2
	@go test $(NOVET) -count=1 ./test/house

.PHONY: vulncheck
vulncheck: ## known vulnerabilities that Curfew's code reaches, by govulncheck; skipped where its database cannot be read (VULNDB=file:///folder names a copy; REQUIRED=1: fails there)
	@status=0; found=$$(go run $(GOVULNCHECK) -db "$(VULNDB)" ./... 2>&1) || status=$$?; echo "$$found"; \
	case "$$found" in *"fetching vulnerabilities"*) echo "skipped: the database $(VULNDB) cannot be read; VULNDB=file:///folder names a copy" >&2; status=$(if $(REQUIRED),1,0) ;; esac; \
	exit $$status

GENERATED = manifests/crd/*.yaml docs/reference-fields.md manifests/profiles/kustomization.yaml manifests/rbac/builtin-kinds.yaml policy/v1alpha1/zz_generated*.go

.PHONY: generate
generate: ## update generated files: deep copies and CRDs, files made from the profiles, formatting, go.mod
	go generate ./...
	go test $(NOVET) ./cmd/kubectl-curfew -run TestReferencePage -update
	go -C manifests/release test $(NOVET) -run TestREADME ./chart -update
	gofmt -w $$(git ls-files '*.go')
	go mod tidy
	go -C test/cluster mod tidy
	go -C manifests/release mod tidy
	for module in test/peers $(dir $(wildcard test/peers/*/go.mod)); do go -C $$module mod tidy; done

.PHONY: verify
verify: $(CLUSTER) ## fail where generate would change something, a kustomization does not build, or a mutant does not fit the code
	@before=$$(cat $(GENERATED) | sha256sum); go generate ./...; \
	[ "$$before" = "$$(cat $(GENERATED) | sha256sum)" ] || { echo "go generate changed one of $(GENERATED): commit what it made" >&2; exit 1; }
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "run make generate, gofmt differs: $$unformatted" >&2; exit 1; }
	go mod tidy -diff
	go mod verify
	go -C test/cluster mod tidy -diff
	go -C manifests/release mod tidy -diff
	for module in test/peers $(dir $(wildcard test/peers/*/go.mod)); do go -C $$module mod tidy -diff; done
	@go run ./test/bench report -check
	@go run ./test/mutation -fit

.PHONY: clean
clean: down ## stop everything and remove what was built
	rm -rf bin dist .cluster .e2e* .soak .demo .bench .full

.PHONY: help
help: ## this
	@awk 'BEGIN { FS = ":.*## "; print "make <target>" } \
		/^##@ / { print "\n" substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 } \
		END { print "\nA change must pass .ci/run, which runs lint, verify, demo, test, test-e2e and bench-gate; run make check before that. Run test-full before a release." }' $(MAKEFILE_LIST)

# Not for people.

# $(call compile,<packages>): what several suites would compile is compiled before.
compile = $(COMPILING) go list -export -test -deps $(1) >/dev/null

# $(call if-changed,<paths>,<suite>,<command>): side modules and what only some code can break are tested where that code changed.
if-changed = if test/changed.sh $(1); then $(3); else echo "skipped: $(2), since no file of theirs changed"; fi

.PHONY: run-core run-e2e run-cli run-serving run-lifecycle run-conformance run-world run-soak run-peers run-release
run-core:
	@$(E2E) ./test/e2e/core

run-e2e:
	@$(E2E) -skip '^TestPeers' ./test/e2e

run-cli run-serving run-lifecycle:
	@$(E2E) ./test/e2e/$(@:run-%=%)

run-conformance:
	@$(E2E) ./test/e2e/conformance -args -seeds 100

run-world:
	@$(E2E) -run '^TestWorld$$' ./cmd/curfew -args -seeds 200

run-soak:
	@go run ./test/soak -objects 600 -window 12s -gap 700ms -longest 2s

run-peers:
	@[ -n "$(PEERS)" ] || { echo "PEERS is empty, and without a version no controller is started: name one, such as PEERS=v2.3.0" >&2; exit 1; }
	@$(call if-changed,$(PEER_PATHS),the suite of JobSet and Trainer,\
		$(COMPILING) GOWORK=off GOFLAGS="-mod=readonly -trimpath" go -C test/peers list -export -deps tool >/dev/null; \
		PEERS=$(PEERS) $(E2E) -run '^TestPeers' ./test/e2e)

run-release:
	@$(call if-changed,$(RELEASE_PATHS),manifests/release,\
		$(COMPILING) go -C manifests/release test $(NOVET) -count=1 -timeout 60m -p 1 -v . ./chart ./image ./e2e | $(SAID))
SAID := awk '!/^(=== (RUN|PAUSE|CONT)|[[:space:]]*--- PASS|PASS$$)/ { print; fflush() }'

# A demo needs the product and the control plane. Where neither is compiled, all packages of both are compiled together first, so that
# both cores always work; the programs are linked after that.
.PHONY: everything build-cluster
everything: $(CLUSTER)
	@[ -n "$(KUBERNETES)" ] || { result=0; $(CLUSTER) built || result=$$?; case $$result in 0) ;; 3) $(MAKE) together ;; *) exit $$result ;; esac }
	@$(MAKE) --jobs=2 build build-cluster

build-cluster: $(CLUSTER)
	@$(CLUSTER) build

.PHONY: together
together:
	@echo "compiling Curfew and a Kubernetes control plane, once: some eight minutes on 2 cores" >&2
	@work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; \
	(cd "$$work" && GOWORK=off go work init "$(CURDIR)" "$(CURDIR)/test/cluster") && export GOWORK=$$work/go.work && \
	go list -deps -f '{{if ne .Name "main"}}{{.ImportPath}}{{end}}' ./cmd/curfew ./cmd/kubectl-curfew ./test/demo ./test/cluster/controlplane sigs.k8s.io/kwok/cmd/kwok >"$$work/packages" && \
	$(COMPILING) go build -v -p $(P) -gcflags='$(KUBERNETES_FLAGS)' $$(cat "$$work/packages") 2> >($(PROGRESS)) || \
	echo "could not compile both together, so one after the other" >&2

.PHONY: build-demo
build-demo:
	@$(call build,bin/demo,./test/demo)

.PHONY: $(CLUSTER)
$(CLUSTER):
	@$(COMPILING) GOFLAGS="-mod=readonly -buildvcs=false -trimpath" GOWORK=off go -C test/cluster build -o ../../$@ ./cmd/cluster

# apiserver's authorizer brings in gRPC. Its traces use html/template, which keeps the linker from leaving out methods that nothing calls:
# 21 MB of them.
# $(call build,<file, or folder and a slash>,<packages>)
define build
[ -x bin/demo ] || echo "building $(2), the first time takes minutes" >&2; \
$(COMPILING) go build -v -p $(P) -tags grpcnotrace -ldflags '$(LDFLAGS)' -o $(1) $(2) 2> >($(PROGRESS))
endef
