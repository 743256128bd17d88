# nodehitch: `make help` lists what there is to make.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X github.com/nodehitch/nodehitch/shared/version.stamp=nodehitch-version<$(VERSION)>
# As the programs are built, so is all else: Go's cache has each package once.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath $(GOFLAGS)
# Without what git knows: a copy of the tree without its folder gives the same bytes.
GOBUILD := go build -buildvcs=false -ldflags '$(LDFLAGS)'
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
OASDIFF := github.com/oasdiff/oasdiff@v1.37.0
UNIT := ./agent/... ./controller/... ./shared/... ./cloudinit/... ./packaging/...
OPENSTACK := ./e2e/openstack/... ./e2e/stacks/...

# Debian and Ubuntu packages: what machines of the lab, and so the demo, need …
LAB_APT := qemu-system-x86 qemu-utils mmdebstrap systemd-container iproute2 e2fsprogs \
           genisoimage lz4 xz-utils zstd cpio apt-utils debian-archive-keyring
# … what `make test` needs besides …
TEST_APT := $(LAB_APT) dosfstools xfsprogs btrfs-progs gdisk cloud-init strace containerd docker-registry
# … and what all other tests need.
ALL_APT := $(TEST_APT) gcc libc6-dev iptables chromium docker.io python3-heat python3-pip python3-stevedore python3-tosca-parser lintian prometheus prometheus-alertmanager rpm rpmlint flake8 mypy shellcheck $(if $(shell command -v npm),,nodejs npm)

.PHONY: help
help: ## List the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: deps-lab build-lab ## One storage VM from user_data to a mounted, exported volume, live
	go run ./e2e/demo

# Debian's packages and an image keep one processor busy, so compiling takes the time that
# they leave (nice). Most of a black-box suite is waiting: tests of packages do the same, and
# print when they are over.
BRIEF := ./e2e/tree ./e2e/agentcontroller ./e2e/cases
.PHONY: test
test: export NODEHITCH_SUITE := brief
test: ## In minutes: the packages, the recorded histories, agent and controller together, ten disks (root)
	$(MAKE) --no-print-directory -j2 deps-and-images compile-test
	$(MAKE) --no-print-directory -j2 --output-sync test-brief test-unit

# With -short, property tests make fewer checks; the recorded histories need their whole
# length. Most of a package's time is waiting too, for disks and clocks.
.PHONY: test-brief test-unit
test-brief:
	$(call black-box,test,2,20m,$(BRIEF))
	go test -vet=off -run '^TestRecordedHistories' ./controller/lifecycle
test-unit:
	nice go test -short -vet=off -p 6 -timeout 20m $(UNIT)

.PHONY: test-ci
test-ci: deps build etcd ## The rest that takes minutes: the packages with the race detector, all black-box suites
	$(MAKE) --no-print-directory -j2 images compile-test-ci
	$(MAKE) --no-print-directory -j2 --output-sync test-e2e sample-breaks
	$(MAKE) --no-print-directory test-race

# Beside the suites, which mostly wait, breaks take the time that those leave.
.PHONY: sample-breaks
sample-breaks: build
	nice go run ./e2e/breaks/cmd/break -sample 4

.PHONY: deps-and-images
deps-and-images:
	$(MAKE) --no-print-directory deps-test
	$(MAKE) --no-print-directory images

# Everything but the links, which no cache keeps.
.PHONY: compile-test compile-test-ci
compile-test:
	nice $(MAKE) --no-print-directory build-lab
	nice go list -test -export $(UNIT) $(BRIEF) >/dev/null
compile-test-ci:
	CGO_ENABLED=1 go list -race -test -export $(UNIT) >/dev/null
	go list -test -export ./e2e/... >/dev/null

# Vet is part of lint. `make e2e` makes all checks of the property tests. Four packages at a time,
# because many wait for disks and clocks, and nothing beside them: slowed down by the detector, an
# etcd or a poll that waits for a processor too runs into its limit.
.PHONY: test-race
test-race: export CGO_ENABLED := 1
test-race:
	go test -race -short -vet=off -p 4 -timeout 20m $(UNIT)

# Black-box suites, then the table of their cases: the folder of their records, how many
# suites at a time, how long each may take, and which. Most of a suite is waiting.
RESULTS := $(CURDIR)/dist/results
define black-box
rm -rf $(RESULTS)/$(1); mkdir -p $(RESULTS)
status=0; NODEHITCH_RESULTS=$(RESULTS)/$(1) go test -count=1 -vet=off -p $(2) -timeout $(3) $(4) || status=$$?; \
go run ./e2e/results/cmd/results-table $(RESULTS)/$(1) | tee dist/results/results.md || status=$$?; exit $$status
endef

# What `make test` has run whole is not run again.
.PHONY: test-e2e
test-e2e: build package-lab ## Black-box cases in the lab, and their table (root)
	$(call black-box,test-ci,3,45m,$$(go list ./e2e/... | grep -vE '/e2e/(tree|agentcontroller)$$'))

# How the parts are divided: e2e/results/parts.go. The table of all does not fail a part.
E2E_TABLE = mkdir -p dist/results && go run ./e2e/results/cmd/results-table -parts $(RESULTS)/e2e | tee dist/results/results.md
.PHONY: e2e
e2e: deps build package-lab kubernetes containerd ## Every case, also the long ones: PART=n alone or all parts, and the table of all (root)
	status=0; go run ./e2e/results/cmd/e2e-parts $(RESULTS)/e2e $(PART) || status=$$?; \
	$(E2E_TABLE) || [[ -n "$(PART)" ]] || status=$$?; exit $$status

.PHONY: e2e-table
e2e-table: ## The table of the parts of make e2e that were run, each when it was run last
	@$(E2E_TABLE)

.PHONY: e2e-openstack
e2e-openstack: export NODEHITCH_OPENSTACK := 1
e2e-openstack: export NODEHITCH_LAB := required
e2e-openstack: deps build kubernetes openstack ## The black-box cases in a real OpenStack (root)
	$(call black-box,openstack,1,150m,-v $(OPENSTACK))

.PHONY: e2e-replicas
e2e-replicas: export NODEHITCH_SUITE := full
e2e-replicas: export NODEHITCH_LAB := required
e2e-replicas: export NODEHITCH_AGENTS := $(AGENTS)
e2e-replicas: deps build-lab etcd ## Three controllers on an etcd while each part fails, AGENTS (2000); its table (root)
	$(call black-box,replicas,1,60m,-v ./e2e/replicas)

.PHONY: fuzz
fuzz: ## Each parser of outside input under the fuzzer, FUZZTIME (60s) each
	@grep -rl --include='*_test.go' '^func Fuzz' agent controller shared cloudinit | while read -r file; do \
	  sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$$file" | while read -r target; do \
	    echo "== $$(dirname "$$file") $$target"; \
	    go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(or $(FUZZTIME),60s) "./$$(dirname "$$file")"; \
	  done; done

.PHONY: breaks
breaks: deps kube ## Break the product on purpose: a test must notice each (BREAKS=regexp of names)
	go run ./e2e/breaks/cmd/break -run '$(BREAKS)'

.PHONY: bench
bench: build ## Benchmarks: no-op convergence, long polls, agent size and memory
	go test -run '^$$' -bench . -benchmem $(UNIT)
	go run ./e2e/footprint

# The tests of each part, none of which should need more than 35 minutes of a quiet
# machine with two cores.
PEERS_1 := ^Test(Noop.*|Timeline)$$
PEERS_2 := ^TestFleets$$/^1\+1\+2,
PEERS_3 := ^TestFleets$$/^1\+1\+20,.*shared
PEERS_4 := ^TestFleets$$/^1\+1\+20,.*share for
PEERS_5 := ^TestBesideAnsible$$
.PHONY: bench-peers
bench-peers: export NODEHITCH_PEERS := 1
bench-peers: export NODEHITCH_LAB := required
bench-peers: deps build kubernetes ## Beside cf-agent, puppet, ansible and SSH push: CPU, time, a node's timeline; PART=1..5 alone or all (root)
ifdef PART
	$(call black-box,peers/$(PART),1,50m,-v -run '$(PEERS_$(PART))' ./e2e/peers ./e2e/cluster ./e2e/kubernetes)
else
	status=0; for part in 1 2 3 4 5; do $(MAKE) --no-print-directory bench-peers PART=$$part || status=$$?; done; \
	go run ./e2e/results/cmd/results-table $(RESULTS)/peers/* | tee dist/results/results.md || status=$$?; exit $$status
endif

.PHONY: images
images: deps-lab ## Build the lab's machine images into the cache
	go run ./e2e/lab/cmd/lab-image

.PHONY: kube
kube: ## Build etcd and Kubernetes' API server for tests into the cache, once (minutes)
	go run ./e2e/kube/cmd/kube-build

.PHONY: kubernetes
kubernetes: deps-lab ## Build what the lab's machines need to be a cluster of Kubernetes into the cache, once (minutes, root)
	go run ./e2e/kube/cmd/kube-build -machines

.PHONY: etcd
etcd: ## Build etcd for tests into the cache, once (a minute)
	go run ./e2e/kube/cmd/kube-build -etcd

.PHONY: containerd
containerd: ## Build containerds of several versions for tests into the cache, once (minutes)
	go run ./e2e/containerd/cmd/containerd-build

.PHONY: openstack
openstack: ## Build the images of OpenStack for tests into the cache, once (minutes, root)
	go run ./e2e/openstack/cmd/openstack-build

.PHONY: build
build: build-lab ## Binaries into bin/, the agent for every architecture
	GOARCH=arm64 $(GOBUILD) -o bin/nodehitch-agent-arm64 ./agent

.PHONY: build-lab
build-lab: ## Binaries into bin/, the agent for the lab's machines only
	@mkdir -p bin
	$(GOBUILD) -o bin/nodehitch-controller ./controller
	$(GOBUILD) -o bin/hitchctl ./controller/hitchctl
	GOARCH=amd64 $(GOBUILD) -o bin/nodehitch-agent-amd64 ./agent

# Of a copy of the tree without git's folder, the time is that of the changelog.
ARCHES ?= amd64 arm64
.PHONY: package
package: export SOURCE_DATE_EPOCH := $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md))
package: ## deb and rpm packages, a wheel, their checksums and SBOM into dist/ (VERSION, ARCHES)
	rm -rf dist/package dist/*.deb dist/*.rpm dist/*.whl dist/*.spdx.json dist/SHA256SUMS
	for arch in $(ARCHES); do \
	  GOARCH=$$arch $(GOBUILD) -o dist/package/nodehitch-agent-$$arch ./agent; \
	  GOARCH=$$arch $(GOBUILD) -o dist/package/nodehitch-controller-$$arch ./controller; \
	  GOARCH=$$arch $(GOBUILD) -o dist/package/hitchctl-$$arch ./controller/hitchctl; \
	done
	go run ./packaging/build -version '$(VERSION)' -arches '$(ARCHES)'

.PHONY: package-lab
package-lab: ARCHES := amd64
package-lab: package ## Packages for the lab's machines only

.PHONY: deps deps-test deps-lab
deps: PACKAGES := $(ALL_APT)
deps: install-packages ## Install the Debian packages that all tests need (root)
deps-test: PACKAGES := $(TEST_APT)
deps-test: install-packages ## Install the Debian packages that make test needs (root)
deps-lab: PACKAGES := $(LAB_APT)
deps-lab: install-packages ## Install the Debian packages that the lab and the demo need (root)

.PHONY: install-packages
install-packages:
	@missing=(); for p in $(PACKAGES); do dpkg-query -W -f '$${Status}' "$$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$$p"); done; \
	if (( $${#missing[@]} )); then \
	  if (( EUID != 0 )); then echo "missing packages: $${missing[*]}; run as root, or install them yourself" >&2; exit 1; fi; \
	  echo "installing $${missing[*]}"; apt-get update -qq; \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$${missing[@]}" >/dev/null; fi

.PHONY: lint
lint: ## Format, vet, golangci-lint, go.mod tidy, generated code, public names and the API as they were meant
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt would change:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	go mod tidy -diff
	go run $(GOLANGCI) run ./...
	$(MAKE) --no-print-directory generate-check names-check api-check lint-python lint-scripts

.PHONY: lint-scripts
lint-scripts: ## shellcheck of the example scripts
	shellcheck docs/examples/*.sh

.PHONY: lint-python
lint-python: ## flake8 and mypy of packaging/tacker, and that it is Python 3.8
	cd packaging/tacker && flake8 && mypy && \
	  git ls-files -z '*.py' | xargs -0 python3 -c 'import ast, sys; [ast.parse(open(f).read(), f, feature_version=(3, 8)) for f in sys.argv[1:]]'

.PHONY: generate
generate: ## Generate code from shared/api/openapi.yaml
	go generate ./shared/... ./controller/...

.PHONY: generate-check
generate-check: generate
	git diff --exit-code -- '*.gen.go'

# No picture names a release or a commit: what it shows is older than the next one.
.PHONY: docs-pictures
docs-pictures: ## Write docs/pictures: the status page in Chromium, and hitchctl, of a real run
	mkdir -p docs/pictures
	$(MAKE) --no-print-directory build VERSION=devel
	NODEHITCH_PICTURES=$(CURDIR)/docs/pictures NODEHITCH_LAB=required go test -count=1 -vet=off -run '^TestPictures$$' ./e2e/browser

.PHONY: names
names: ## Write docs/dev/public-names.txt: every name that others write into scripts, dashboards and VMs
	go run ./e2e/names docs/dev/public-names.txt

.PHONY: names-check
names-check:
	@go run ./e2e/names | diff -u -F '^#' docs/dev/public-names.txt - || { echo "public names changed (- is in docs/dev/public-names.txt, + in the code). Who uses the old ones:" \
	  "scripts, dashboards, packages, VMs that run? If the change is meant: make names, and commit the list with it" >&2; exit 1; }

# What was meant is in e2e/versions/api-changes.txt. New values of an enum break no client: the
# API says that clients have to expect them.
.PHONY: api-check
api-check: ## The API breaks no client of the oldest supported build
	@mkdir -p dist/results
	@git show "$$(cut -d ' ' -f 1 e2e/versions/oldest):shared/api/openapi.yaml" > dist/results/openapi-oldest.yaml
	@go run $(OASDIFF) breaking --fail-on ERR --severity-levels e2e/versions/api-levels.txt --err-ignore e2e/versions/api-changes.txt dist/results/openapi-oldest.yaml shared/api/openapi.yaml || \
	  { echo "the API breaks clients of $$(cat e2e/versions/oldest). If that is meant, add the lines to e2e/versions/api-changes.txt" >&2; exit 1; }

.PHONY: vulncheck
vulncheck: ## Known vulnerabilities (needs vuln.go.dev)
	@go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./... || { echo "govulncheck did not succeed: it needs its database at vuln.go.dev, or it found something above" >&2; exit 1; }

.PHONY: clean
clean: ## Remove what was built (the lab's image cache stays)
	rm -rf bin dist
