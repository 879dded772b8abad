# SPDX-License-Identifier: BSD-2-Clause
# The torture of libhwt-store, and the checker that judges it; store/test/torture.h says how it goes.

.PHONY: torture torture-ha

STORE_CHECKS += $(if $(STORE),store/test/pgbouncer.sh)

torture: $(if $(STORE),$(BUILD)/test/torture) ## libhwt-store while processes and databases die, SECONDS=600
	$(if $(STORE),HWT_TORTURE_S=$(or $(SECONDS),600) test/run.sh $(BUILD) store/test/torture.sh,@echo 'torture: libhwt-store is not built')

# Not a part of the gate; Patroni and etcd are installed by hand (Debian: patroni, etcd-server).
torture-ha: $(if $(STORE),$(BUILD)/test/torture) ## the same on three nodes under Patroni, six minutes
	$(if $(STORE),test/run.sh $(BUILD) store/test/torture_ha.sh,@echo 'torture-ha: libhwt-store is not built')

ifneq ($(STORE),)
$(BUILD)/test/torture: $(wildcard store/test/torture*.[ch]) $(BUILD)/libhwt-store-unit.a $(BUILD)/libhwt.a | $(BUILD)/test
	$(QCC) $(ALL_CPPFLAGS) $(STORE_HAVE) $(STORE_CPPFLAGS) -Istore/examples $(GNU) -DHWT_TEST $(ALL_CFLAGS) -o $@ \
		$(filter %.c,$^) $(BUILD)/libhwt-store-unit.a $(BUILD)/libhwt.a $(STORE_LIBS) $(ALL_LDFLAGS)
endif
